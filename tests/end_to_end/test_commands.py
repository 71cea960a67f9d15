"""The command line as a process of its own: exit codes, signals, and a second command beside the first."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from whole_runs import MakeProject, folder_of, reader_of

from potato_ray.config import ProjectConfig
from potato_ray.job.follow import ALIVE, Follower
from potato_ray.lock import holding
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

DEADLINE_S = 60.0
# A background job of a shell ignores SIGINT, and hands that down to us and to the command.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from potato_ray.cli import main
main()
"""


class Command:
    """One `potato-ray …` process."""

    def __init__(self, config: ProjectConfig, *arguments: str) -> None:
        self.folder = config.task_dir
        self.process = subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *arguments],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.out = self.err = ""

    def end(self) -> int:
        """Wait for the end; the exit code."""
        self.out, self.err = self.process.communicate(timeout=DEADLINE_S)
        return self.process.returncode


Start = Callable[..., Command]


@pytest.fixture
def command() -> Iterator[Start]:
    """Starts commands, and kills what a failed test has left of them."""
    commands: list[Command] = []

    def start(config: ProjectConfig, *arguments: str) -> Command:
        commands.append(Command(config, *arguments))
        return commands[-1]

    yield start
    for each in commands:
        if each.process.poll() is None:
            each.process.kill()
            each.process.communicate(timeout=DEADLINE_S)


def train(command: Start, config: ProjectConfig, act: str, *more: str) -> Command:
    arguments = ("--trainer", "rehearsal", "--schema", "sentiment", "--param", f"act={act}", *more)
    return command(config, "training", "run", "config.yaml", *arguments)


def wait_for(true: Callable[[], bool], command: Command) -> None:
    """Wait until something is true; fails at the deadline, or when the command has ended before."""
    deadline = time.monotonic() + DEADLINE_S
    while not true():
        if command.process.poll() is not None:
            pytest.fail(f"the command ended with {command.end()}: {command.out} {command.err}")
        assert time.monotonic() < deadline, "it did not come to that in time"
        time.sleep(0.05)


def runs_of(config: ProjectConfig) -> list[Run]:
    return reader_of(config).runs() if config.registry_path.exists() else []


def rehearsing(config: ProjectConfig, command: Command) -> str:
    """Wait until the newest run's worker is at work; the run's id."""
    wait_for(lambda: bool(runs := runs_of(config)) and runs[0].step == "rehearsing", command)
    return runs_of(config)[0].run_id


def state_of(config: ProjectConfig, run_id: str) -> State:
    return reader_of(config).run(run_id).state


def lives(config: ProjectConfig, run_id: str) -> bool:
    return Follower(folder_of(config, run_id)).state() == ALIVE


def is_given_back(config: ProjectConfig) -> bool:
    """Whether the project and Ray's session folder were given back."""
    return not any((config.state_dir / name).exists() for name in ("server.json", "ray.json"))


def test_a_run_from_start_to_end_exits_with_0(make_project: MakeProject, command: Start) -> None:
    config = make_project()
    training = train(command, config, "succeed")
    assert training.end() == 0, training.err
    assert "held-out score: val" in training.out
    assert is_given_back(config)
    (run,) = runs_of(config)
    assert run.idempotency_key


def test_an_unknown_scheme_is_refused_without_ray(make_project: MakeProject, command: Start) -> None:
    config = make_project()
    arguments = ("--trainer", "rehearsal", "--schema", "sentimant", "--json")
    training = command(config, "training", "run", "config.yaml", *arguments, "--param", "act=succeed")
    assert training.end() == 1
    assert "Error (unknown_schema)" in training.err
    assert "starting" not in training.err
    assert runs_of(config) == []


def test_a_project_that_another_process_holds_is_refused_before_ray_is_started(
    make_project: MakeProject, command: Start
) -> None:
    config = make_project()
    with holding(config.state_dir, "another server"):
        training = train(command, config, "succeed")
        assert training.end() == 1
    assert "in use by another server" in training.err
    assert not (config.state_dir / "ray.json").exists()


def test_ctrl_c_cancels_the_run_and_exits_with_130(make_project: MakeProject, command: Start) -> None:
    config = make_project(grace_seconds=2)
    training = train(command, config, "wait")
    run_id = rehearsing(config, training)
    training.process.send_signal(signal.SIGINT)
    assert training.end() == 130, training.err
    assert f"cancelling {run_id}" in training.err
    assert state_of(config, run_id) == State.CANCELLED
    assert not lives(config, run_id)
    assert is_given_back(config)


@pytest.mark.parametrize(
    ("number", "code"),
    # Both signals take the same way, which tests/cli goes with each.
    [(signal.SIGTERM, 143), pytest.param(signal.SIGHUP, 129, marks=pytest.mark.long)],
)
def test_a_terminated_command_leaves_a_run_that_the_next_one_takes_up(
    make_project: MakeProject, command: Start, number: signal.Signals, code: int
) -> None:
    config = make_project()
    first = train(command, config, "wait")
    run_id = rehearsing(config, first)
    first.process.send_signal(number)
    assert first.end() == code, first.err
    assert f"stopped by {number.name}; run {run_id} goes on by itself for 300 s" in first.err
    assert is_given_back(config)
    assert lives(config, run_id)
    (folder_of(config, run_id).path / "go").touch()
    second = train(command, config, "succeed")
    assert second.end() == 0, second.err
    assert [run.state for run in runs_of(config)] == [State.SUCCESS, State.SUCCESS]
    assert reader_of(config).run(run_id).attempt == 1


def test_a_command_that_is_terminated_while_it_starts_leaves_nothing(
    make_project: MakeProject, command: Start
) -> None:
    config = make_project()
    training = train(command, config, "succeed")
    wait_for((config.state_dir / "ray.json").exists, training)
    training.process.terminate()
    assert training.end() == 143, training.err
    assert "Traceback" not in training.err
    assert is_given_back(config)
    assert runs_of(config) == []


def test_a_second_process_cancels_what_the_first_one_trains(
    make_project: MakeProject, command: Start
) -> None:
    config = make_project(grace_seconds=2)
    training = train(command, config, "wait")
    run_id = rehearsing(config, training)
    cancelling = command(config, "training", "cancel", "latest", "--json")
    assert cancelling.end() == 0, cancelling.err
    assert training.end() == 1, training.err
    assert state_of(config, run_id) == State.CANCELLED
    again = command(config, "training", "cancel", run_id)
    assert again.end() == 1
    assert "already_ended" in again.err


def test_a_run_is_cancelled_with_nobody_at_work(make_project: MakeProject, command: Start) -> None:
    config = make_project(grace_seconds=2)
    training = train(command, config, "silent")
    run_id = rehearsing(config, training)
    training.process.kill()
    training.end()
    assert lives(config, run_id)
    cancelling = command(config, "training", "cancel", run_id)
    assert cancelling.end() == 0, cancelling.err
    assert cancelling.out == f"run {run_id}: cancelled\n"
    assert state_of(config, run_id) == State.CANCELLED
    assert not lives(config, run_id)


def test_a_command_whose_ray_has_died_does_not_wait_for_ever(
    make_project: MakeProject, command: Start
) -> None:
    config = make_project()
    training = train(command, config, "wait")
    run_id = rehearsing(config, training)
    kill_ray(training.process.pid)
    assert training.end() == 1, training.err
    assert "Error (controller_lost)" in training.err
    cancelling = command(config, "training", "cancel", run_id)
    assert cancelling.end() == 0, cancelling.err


def kill_ray(parent: int) -> None:
    """Kill the processes of Ray that a command has started."""
    # By name: the width of ps's lines depends on the terminal, and a path may be longer.
    names = ["ps", "-o", "pid=,comm=", "--ppid", str(parent)]
    listed = subprocess.run(names, capture_output=True, text=True, timeout=10, check=True).stdout
    pids = [
        int(line.split()[0]) for line in listed.splitlines() if line.split()[1] in ("gcs_server", "raylet")
    ]
    assert len(pids) == 2, listed
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
