"""The commands beside a real server: it trains what they start, and they follow, cancel and leave."""

from __future__ import annotations

import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml
from server_process import ServerProcess
from test_commands import Command, command, runs_of, state_of, train, wait_for
from whole_runs import ended, folder_of

from potato_ray.config import ProjectConfig, load
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
__all__ = ["command"]


@pytest.fixture(scope="module")
def served() -> Iterator[ServerProcess]:
    """One server for all; nobody waits until it is ready."""
    folder = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
    shutil.copytree(PROJECT, folder / "p")
    path = folder / "p" / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    body["model_training"]["grace_seconds"] = 2
    path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
    server = ServerProcess(load(path))
    yield server
    server.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def config(served: ServerProcess) -> ProjectConfig:
    return served.config


def under_way(config: ProjectConfig, training: Command) -> str:
    """Wait until the worker of the newest run is at work; the run's id."""

    def rehearses() -> bool:
        return any(run.step == "rehearsing" and run.state == State.RUNNING for run in runs_of(config)[:1])

    wait_for(rehearses, training)
    return runs_of(config)[0].run_id


def test_a_run_that_is_started_while_the_server_starts_is_trained_by_it(
    served: ServerProcess, config: ProjectConfig, command: type[Command]
) -> None:
    served.wait_until((config.state_dir / "server.json").exists)
    training = train(command, config, "succeed")
    assert training.end() == 0, training.err
    assert "held-out score: val" in training.out
    assert f"starting it on the server at {served.wait_for_url()}" in training.err
    (run,) = runs_of(config)
    assert (run.state, run.trigger) == (State.SUCCESS, "api")
    assert served.health()["controller"] == "ready"


def test_what_only_reads_and_the_check_work_beside_the_server(
    config: ProjectConfig, command: type[Command]
) -> None:
    for arguments in (("runs",), ("show", "latest"), ("log", "latest"), ("check", "local", "config.yaml")):
        reading = command(config, "training", *arguments)
        assert reading.end() == 0, reading.err
        assert reading.out


def test_predictions_are_withdrawn_by_the_server(config: ProjectConfig, command: type[Command]) -> None:
    withdrawing = command(config, "training", "withdraw", "latest")
    assert withdrawing.end() == 0, withdrawing.err
    assert "withdrawn" in withdrawing.out


def test_ctrl_c_cancels_the_run(config: ProjectConfig, command: type[Command]) -> None:
    training = train(command, config, "wait")
    run_id = under_way(config, training)
    training.process.send_signal(signal.SIGINT)
    assert training.end() == 130, training.err
    assert f"cancelling {run_id}" in training.err
    assert state_of(config, run_id) == State.CANCELLED


def test_sigterm_leaves_the_run_which_another_command_cancels(
    config: ProjectConfig, command: type[Command]
) -> None:
    training = train(command, config, "wait")
    run_id = under_way(config, training)
    training.process.terminate()
    assert training.end() == 143, training.err
    assert f"run {run_id} goes on under the server at" in training.err
    assert state_of(config, run_id) == State.RUNNING
    cancelling = command(config, "training", "cancel", run_id)
    assert cancelling.end() == 0, cancelling.err
    assert ended(config, run_id).state == State.CANCELLED


def test_a_second_start_waits_behind_the_first(config: ProjectConfig, command: type[Command]) -> None:
    first = train(command, config, "wait")
    run_id = under_way(config, first)
    second = train(command, config, "succeed")
    (folder_of(config, run_id).path / "go").touch()
    assert (first.end(), second.end()) == (0, 0), first.err + second.err
    assert [run.state for run in runs_of(config)[:2]] == [State.SUCCESS, State.SUCCESS]


def test_a_run_outlives_the_server_and_its_command_says_who_takes_it_up(
    served: ServerProcess, config: ProjectConfig, command: type[Command]
) -> None:
    training = train(command, config, "wait")
    run_id = under_way(config, training)
    assert served.end(signal.SIGTERM) == 0
    assert training.end() == 1, training.err
    assert "controller_lost" in training.err
    (folder_of(config, run_id).path / "go").touch()
    after = train(command, config, "succeed")
    assert after.end() == 0, after.err
    assert state_of(config, run_id) == State.SUCCESS
