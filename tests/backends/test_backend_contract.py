"""What every backend keeps, shown on each of them."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fake_backend import FakeBackend
from job_making import N_ROWS, make_job
from listening import Listener, SupervisorLost, cancel_after_five, lose_after_five

from potato_ray.backends.base import Backend, Directive, Job, Placement, Refusal
from potato_ray.backends.gpus import Card
from potato_ray.backends.local import LocalBackend, LocalSettings
from potato_ray.job.folder import JobFolder

N_PREDICTIONS = N_ROWS["val"] + N_ROWS["test"] + N_ROWS["unlabeled"]
CARDS = tuple(Card(n, f"GPU-{n}", "X", 40000, free) for n, free in enumerate((9000, 30000, 20000)))


@pytest.fixture(params=["fake", "local"])
def backend(request: pytest.FixtureRequest, smi_dir: Path) -> Iterator[Backend]:
    if request.param == "fake":
        fake = FakeBackend(cards=CARDS)
        yield fake
        fake.close()
        return
    lines = (f"{c.index}, {c.uuid}, X, 40000, 0, {c.free_mb:.0f}, 0, 8.0, Disabled\n" for c in CARDS)
    (smi_dir / "query.csv").write_text("".join(lines))
    yield LocalBackend("local", LocalSettings(python=sys.executable), ask_torch=lambda python: None)


def is_gone(backend: Backend, folder: Path) -> bool:
    """Whether the job's processes are gone, soon."""
    deadline = time.monotonic() + 5.0
    while backend.alive(folder) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not backend.alive(folder)


def test_the_check_says_what_it_checked(backend: Backend) -> None:
    report = backend.check()
    assert (report.backend, report.type) == (backend.name, backend.type)
    assert report.ok
    assert report.summary
    assert report.checks


def test_no_two_runs_share_a_gpu(backend: Backend) -> None:
    taken: set[str] = set()
    for uuid in ("GPU-1", "GPU-2", "GPU-0"):
        placement = backend.place(taken)
        assert isinstance(placement, Placement)
        assert placement.gpu_uuids == (uuid,)
        taken.add(uuid)
    refusal = backend.place(taken)
    assert isinstance(refusal, Refusal)
    assert refusal.wait


def test_slots_tell_the_cards_apart(backend: Backend) -> None:
    slots = set()
    for taken in (set(), {"GPU-1"}, {"GPU-1", "GPU-2"}):
        placement = backend.place(taken)
        assert isinstance(placement, Placement)
        slots.update(placement.slots)
    assert len(slots) == 3


def test_a_trainer_without_use_for_a_gpu_gets_none(backend: Backend) -> None:
    placement = backend.place(set(), uses_gpu=False)
    assert isinstance(placement, Placement)
    assert (placement.device, placement.gpu_uuids, placement.slots) == ("cpu", (), ())


def test_a_run_succeeds_with_every_event_in_order(backend: Backend, tmp_path: Path) -> None:
    heard = Listener()
    outcome = backend.execute(make_job(tmp_path / "job"), heard)
    assert outcome.status == "success", outcome
    assert heard.first_seqs[0] == 0
    assert [event["step"] for event in heard.events if event["event"] == "metric"] == list(range(10))
    assert dict(outcome.result) == dict(heard.events[-1])
    lines = JobFolder(tmp_path / "job").predictions.read_text().splitlines()
    assert len(lines) == N_PREDICTIONS
    assert is_gone(backend, tmp_path / "job")


def test_a_failure_says_what_happened_and_what_to_do(backend: Backend, tmp_path: Path) -> None:
    outcome = backend.execute(make_job(tmp_path / "job", "fail"), Listener())
    assert (outcome.status, outcome.error_code) == ("error", "fit_failed")
    assert "It was told to fail" in outcome.message
    assert outcome.next_step == "Tell it to succeed."


def test_a_cancelled_run_leaves_nothing_behind(backend: Backend, tmp_path: Path) -> None:
    outcome = backend.execute(make_job(tmp_path / "job", "wait"), Listener(cancel_after_five))
    assert outcome.status == "cancelled"
    assert is_gone(backend, tmp_path / "job")


def test_a_run_outlives_its_follower_and_is_followed_again(backend: Backend, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "wait")
    first = Listener(lose_after_five)
    with pytest.raises(SupervisorLost):
        backend.execute(job, first)
    assert backend.alive(job.folder)
    (job.folder / "go").touch()
    second = Listener()
    outcome = backend.execute(replace(job, first_seq=len(first.events)), second)
    assert outcome.status == "success", outcome
    assert second.first_seqs[0] == len(first.events)
    steps = [event["step"] for event in [*first.events, *second.events] if event["event"] == "metric"]
    assert steps == list(range(10))


def test_a_run_that_ended_meanwhile_is_collected(backend: Backend, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job")
    heard = Listener()
    first = backend.execute(job, heard)
    again = Listener()
    second = backend.execute(replace(job, first_seq=len(heard.events)), again)
    assert second.status == "success"
    assert second.result == first.result
    assert again.events == []


def test_a_late_write_lets_the_run_go_on_with_its_new_follower(backend: Backend, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "wait")
    late = Listener(lambda heard: Directive(stale=heard.n_steps >= 5))
    assert backend.execute(job, late).status == "stale"
    assert backend.alive(job.folder)
    (job.folder / "go").touch()
    assert backend.execute(replace(job, first_seq=len(late.events)), Listener()).status == "success"


def test_the_sink_is_called_every_second_while_the_worker_is_silent(backend: Backend, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "wait")
    go = threading.Timer(2.5, (job.folder / "go").touch)
    go.start()
    heard = Listener()
    assert backend.execute(job, heard).status == "success"
    gaps = [later - earlier for earlier, later in zip(heard.called_at, heard.called_at[1:], strict=False)]
    assert max(gaps) < 1.5
    go.join()


def test_a_folder_that_never_ran_holds_nothing(backend: Backend, tmp_path: Path) -> None:
    job: Job = make_job(tmp_path / "job")
    assert not backend.alive(job.folder)
