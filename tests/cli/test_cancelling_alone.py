"""Cancelling a run while no process holds its project: the command itself brings the run to its end."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from clocks import Clock
from job_making import make_job

from potato_ray.backends.remote_note import RemoteNote, read_note, write_note
from potato_ray.cli.cancelling import cancel_here
from potato_ray.config import ProjectConfig
from potato_ray.errors import Conflict
from potato_ray.job.folder import JobFolder, Processes
from potato_ray.job.follow import ALIVE, ENDED, Follower
from potato_ray.job.launcher import start_detached
from potato_ray.job.processes import identify
from potato_ray.registry.runs import NewRun, Reservation
from potato_ray.registry.states import State
from potato_ray.registry.store import Registry


def registry_of(config: ProjectConfig) -> Registry:
    return Registry(config.registry_path, project=config.annotation_task_name)


def left_in(config: ProjectConfig, *states: State) -> str:
    """A run that its server has left behind in the last of `states`, holding a GPU."""
    with registry_of(config) as registry:
        new = NewRun("t", ("sentiment",), ("nominal",))
        run = registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=1)
        registry.begin(run.run_id, Reservation("local", ("GPU-1",), "cuda"), 1)
        for state in states:
            registry.transition(run.run_id, 1, state)
    return run.run_id


def taken(config: ProjectConfig) -> frozenset[str]:
    with registry_of(config) as registry:
        return registry.taken("local")


def folder_of(config: ProjectConfig, run_id: str) -> JobFolder:
    return JobFolder(config.training_dir / "runs" / run_id)


@pytest.mark.parametrize("states", [(), (State.RUNNING,)])
def test_a_run_without_a_worker_is_cancelled_at_once(
    project: ProjectConfig, states: tuple[State, ...]
) -> None:
    run_id = left_in(project, *states)
    answer = cancel_here(project, run_id)
    assert answer == {"run_id": run_id, "state": "cancelled", "cancelled": True}
    assert taken(project) == frozenset()


def test_a_worker_that_lives_on_is_stopped_and_the_end_recorded(project: ProjectConfig) -> None:
    run_id = left_in(project, State.RUNNING)
    folder = folder_of(project, run_id)
    make_job(folder.path, "wait")
    start_detached(folder.path, python=sys.executable)
    assert cancel_here(project, run_id)["cancelled"]
    assert Follower(folder).state() == ENDED
    assert taken(project) == frozenset()
    assert (folder.path / "run.log").is_file()


def test_a_worker_that_does_not_end_keeps_its_run_and_its_gpu(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id, clock = left_in(project, State.RUNNING), Clock(now=0.0)
    folder = folder_of(project, run_id)
    folder.path.mkdir(parents=True)
    myself = identify(os.getpid())
    assert myself is not None
    folder.write_processes(Processes(myself, myself, 0.0))
    assert Follower(folder).state() == ALIVE
    answer = cancel_here(project, run_id, clock=clock, sleep=clock.sleep)
    assert answer["state"] == "running"
    assert not answer["cancelled"]
    assert clock.now == pytest.approx(project.model_training.grace_seconds + 5.0, abs=0.2)
    assert "still being stopped" in capsys.readouterr().err
    assert taken(project) == {"GPU-1"}
    assert folder.cancel.exists()


def test_a_launcher_that_is_gone_without_an_end_needs_no_waiting(project: ProjectConfig) -> None:
    run_id = left_in(project, State.RUNNING)
    folder = folder_of(project, run_id)
    folder.path.mkdir(parents=True)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        gone = identify(process.pid)
    assert gone is not None
    folder.write_processes(Processes(gone, gone, 0.0, markers=("POTATO_RAY_TEST_MARK=none",)))
    assert cancel_here(project, run_id)["cancelled"]


def test_a_run_that_is_being_finished_cannot_be_cancelled(project: ProjectConfig) -> None:
    run_id = left_in(project, State.RUNNING, State.FINISHING)
    with pytest.raises(Conflict, match="has finished training") as refused:
        cancel_here(project, run_id)
    assert refused.value.code == "already_ended"


def noted_on_host(config: ProjectConfig, run_id: str, **known: bool) -> JobFolder:
    """The folder of a run that is on a host to which no backend leads."""
    folder = folder_of(config, run_id)
    folder.path.mkdir(parents=True)
    write_note(folder.path, RemoteNote("gpu1", 1, "/r", "c0de", "/py", "/tmp/potato-1/s", **known))
    return folder


def test_a_run_on_a_host_that_no_backend_leads_to_is_left_to_the_next_run_there(
    project: ProjectConfig, capsys: pytest.CaptureFixture[str]
) -> None:
    run_id = left_in(project, State.RUNNING)
    folder = noted_on_host(project, run_id)
    assert cancel_here(project, run_id)["cancelled"]
    said = capsys.readouterr().err
    assert "backend local does not lead to gpu1 any more. The run may go on on gpu1 for up to " in said
    assert "The next run of this project on gpu1 ends and removes what is left." in said
    note = read_note(folder.path)
    assert note is not None
    assert note.outcome is not None
    assert taken(project) == {"GPU-1"}


def test_a_run_that_was_cleared_up_on_its_host_is_cancelled_at_once(project: ProjectConfig) -> None:
    run_id = left_in(project, State.RUNNING)
    noted_on_host(project, run_id, cleared=True)
    assert cancel_here(project, run_id)["cancelled"]
    assert taken(project) == frozenset()
