"""Runs from start to write-back on this machine."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import pytest
from whole_runs import (
    MakeProject,
    OpenSession,
    add_items,
    ended,
    folder_of,
    in_step,
    reader_of,
    start,
    wait_until,
)

from potato_ray.errors import Conflict
from potato_ray.registry.states import State
from potato_ray.starting import StartRequest

pytestmark = pytest.mark.ray


def processes_of(run_id: str) -> list[str]:
    """The command lines of processes that still work for a run."""
    listing = subprocess.run(["ps", "-wweo", "args"], capture_output=True, text=True, timeout=10, check=True)
    return [line for line in listing.stdout.splitlines() if run_id in line]


def test_a_run_is_trained_scored_and_written_back(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    run = ended(config, start(open_session(config), "sklearn-text"))
    assert run.state == State.SUCCESS, (run.error, run.error_evidence)
    assert run.headline is not None
    assert run.headline["split"] == "val"
    assert run.headline["low"] <= run.headline["value"] <= run.headline["high"]
    assert run.writeback is not None
    assert run.writeback["n_written"] > 0
    assert not any(name.startswith("val_") for name in run.metrics)
    log = folder_of(config, run.run_id).path / "run.log"
    wait_until(config, run.run_id, lambda _: log.exists())  # it is written when the end is recorded
    assert "fitting" in log.read_text("utf-8")


def test_a_second_run_is_compared_with_the_first(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    session = open_session(config)
    first = ended(config, start(session, "sklearn-text"))
    second = ended(config, start(session, "sklearn-text"))
    assert first.headline is not None
    assert second.headline is not None
    assert second.headline["previous"] == pytest.approx(first.headline["value"], abs=0)
    assert second.scores["metrics"] == first.scores["metrics"]


def test_memory_above_the_limit_ends_the_run_with_advice(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project(max_ram_mb=512)
    session = open_session(config)
    hoarding = ended(config, start(session, act="hoard", mb=1024))
    assert (hoarding.state, hoarding.error_code) == (State.ERROR, "out_of_memory")
    assert "max_ram_mb" in hoarding.error + hoarding.error_next_step
    modest = ended(config, start(session, "sklearn-text"))
    assert modest.state == State.SUCCESS, modest.error


@pytest.mark.alone
def test_a_silent_worker_ends_at_its_wall_clock_limit(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project(max_wall_seconds=2, grace_seconds=1)
    run = ended(config, start(open_session(config), act="silent"))
    assert (run.state, run.error_code) == (State.ERROR, "wall_clock")
    assert run.error.startswith("Stopped: the run took longer than model_training.max_wall_seconds")
    assert run.duration_s is not None
    assert run.duration_s < 2 + 1.5


def test_a_waiting_run_is_cancelled_at_once(make_project: MakeProject, open_session: OpenSession) -> None:
    config = make_project()
    session = open_session(config)
    first = start(session, act="wait")
    wait_until(config, first, lambda run: run.state != State.QUEUED)
    waiting = start(session, act="succeed")
    assert reader_of(config).run(waiting).position == 1
    assert session.call("cancel", waiting)["cancelled"] is True
    assert reader_of(config).run(waiting).state == State.CANCELLED
    session.call("cancel", first)
    assert ended(config, first).state == State.CANCELLED


@pytest.mark.alone
def test_a_run_is_cancelled_within_a_second_while_it_is_built(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    add_items(config, 150_000)
    session = open_session(config)
    run_id = start(session, "sklearn-text")
    wait_until(config, run_id, lambda run: run.state == State.BUILDING and run.current > 0)
    asked_at = time.monotonic()
    session.call("cancel", run_id)
    assert ended(config, run_id).state == State.CANCELLED
    assert time.monotonic() - asked_at < 1.0
    assert not (config.training_dir / "runs" / run_id / "bundle").exists()


def test_a_changed_split_seed_is_warned_of(make_project: MakeProject, open_session: OpenSession) -> None:
    config = make_project()
    first = open_session(config)
    before = ended(config, start(first, "sklearn-text"))
    first.close()
    training = config.model_training.model_copy(update={"split_seed": 1})
    changed = config.model_copy(update={"model_training": training})
    after = ended(changed, start(open_session(changed), "sklearn-text"))
    assert any("split_seed has changed" in each and before.run_id in each for each in after.warnings)
    assert after.headline is not None
    assert after.headline["comparable"] is False


def test_native_code_is_killed_after_the_grace(make_project: MakeProject, open_session: OpenSession) -> None:
    config = make_project(grace_seconds=1)
    session = open_session(config)
    run_id = start(session, act="native")
    wait_until(config, run_id, in_step("rehearsing"))
    asked_at = time.monotonic()
    session.call("cancel", run_id)
    assert reader_of(config).run(run_id).status in ("cancelling", "cancelled")
    run = ended(config, run_id)
    assert run.state == State.CANCELLED
    assert 0.5 < time.monotonic() - asked_at < 5.0
    wait_gone(run_id)


def wait_gone(run_id: str) -> None:
    deadline = time.monotonic() + 10.0
    while processes_of(run_id):
        assert time.monotonic() < deadline, processes_of(run_id)
        time.sleep(0.05)


def test_a_licence_has_to_be_accepted(make_project: MakeProject, open_session: OpenSession) -> None:
    config = make_project()
    session = open_session(config)
    request = StartRequest(trainer="licensed", schemas=("sentiment",))
    refused = session.call("start", request)
    assert (refused["started"], refused["error_code"], refused["status"]) == (
        False,
        "licence_not_confirmed",
        400,
    )
    accepted = session.call("start", StartRequest(**{**vars(request), "accept_licence": True}))
    assert ended(config, accepted["run_id"]).state == State.SUCCESS


def test_an_ended_run_cannot_be_cancelled(make_project: MakeProject, open_session: OpenSession) -> None:
    config = make_project()
    session = open_session(config)
    run_id = start(session)
    ended(config, run_id)
    with pytest.raises(Conflict, match="already ended"):
        session.call("cancel", run_id)


def test_a_torn_file_is_named_in_the_warnings_and_left_alone(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    torn = config.output_dir / "annotator_b" / "user_state.json"
    torn.write_text(torn.read_text("utf-8")[:4000], "utf-8")
    before = torn.read_bytes()
    run = ended(config, start(open_session(config), "sklearn-text"))
    assert run.state == State.SUCCESS, run.error
    assert any("annotator_b" in warning and "user_state.json" in warning for warning in run.warnings)
    assert torn.read_bytes() == before


def test_predictions_are_never_made_on_train_items(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    run = ended(config, start(open_session(config), "sklearn-text"))
    folder = config.training_dir / "runs" / run.run_id
    predicted = {item_of(line) for line in lines_of(folder / "artifacts" / "predictions.jsonl")}
    trained = {item_of(line) for line in lines_of(folder / "bundle" / "train.jsonl")}
    assert predicted
    assert predicted & trained == set()


def lines_of(path: Path) -> list[str]:
    return path.read_text("utf-8").splitlines()


def item_of(line: str) -> str:
    return str(json.loads(line)["instance_id"])
