"""What can go wrong around a run: a supervisor is lost, a device is not there, memory runs out."""

from __future__ import annotations

import os
import signal
import time

import pytest
from killing import command_of
from whole_runs import (
    DEADLINE_S,
    MakeProject,
    OpenSession,
    ended,
    folder_of,
    in_step,
    reader_of,
    start,
    wait_until,
)

from potato_ray.config import ProjectConfig
from potato_ray.job import processes
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray


def supervisors() -> list[int]:
    """The processes that Ray's tasks of this kind run in, under this one."""
    ours = processes.descendants(os.getpid())
    return [pid for pid in ours if command_of(pid).startswith("ray::supervise_run")]


def test_a_lost_supervisor_is_replaced(make_project: MakeProject, open_session: OpenSession) -> None:
    config = make_project()
    session = open_session(config)
    run_id = start(session, act="wait")
    wait_until(config, run_id, in_step("rehearsing"))
    killed = supervisors()
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    (folder_of(config, run_id).path / "go").touch()
    run = ended(config, run_id)
    assert (run.state, run.attempt) == (State.SUCCESS, 1), run.error


def test_placement_warnings_reach_the_runs_log(make_project: MakeProject, open_session: OpenSession) -> None:
    config = make_project(device="cuda:7")
    run = ended(config, start(open_session(config), "accelerated"))
    assert any("cuda:7" in warning for warning in run.warnings)


def test_the_evidence_of_a_memory_limit_reaches_the_run(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project(max_ram_mb=300)
    run = ended(config, start(open_session(config), act="hoard", mb=600))
    run = wait_until_complete(config, run.run_id)
    assert "MiB" in run.error_evidence
    assert run.peak_rss_mb > 300


def wait_until_complete(config: ProjectConfig, run_id: str) -> Run:
    """The run once its process is gone and all is known of it."""
    deadline = time.monotonic() + DEADLINE_S
    while not (run := reader_of(config).run(run_id)).peak_rss_mb:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    return run
