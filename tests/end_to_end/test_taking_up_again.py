"""A run outlives whoever watches it, and is taken up again where it is."""

from __future__ import annotations

import contextlib
import os
import signal
import sqlite3
from pathlib import Path

import pytest
from gpu_machine import give_gpus
from whole_runs import MakeProject, OpenSession, ended, folder_of, in_step, reader_of, start, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.job.folder import JobFolder
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray


def left_at_work(config: ProjectConfig, open_own_session: OpenSession) -> str:
    """The id of a run whose worker waits for `go`, and whose session has been closed meanwhile."""
    session = open_own_session(config)
    run_id = start(session, act="wait")
    wait_until(config, run_id, in_step("rehearsing"))
    wait_until(config, run_id, lambda run: run.n_unlabeled is not None)
    session.close()
    return run_id


def test_a_run_goes_on_without_its_session_and_is_followed_to_success(
    make_project: MakeProject, open_own_session: OpenSession
) -> None:
    config = make_project()
    run_id = left_at_work(config, open_own_session)
    assert reader_of(config).run(run_id).state == State.RUNNING
    (folder_of(config, run_id).path / "go").touch()
    open_own_session(config)
    run = ended(config, run_id)
    assert (run.state, run.attempt) == (State.SUCCESS, 1), run.error


def test_the_items_of_a_run_are_recorded_to_their_end_by_whoever_takes_it_up(
    make_project: MakeProject, open_own_session: OpenSession
) -> None:
    config = make_project()
    run_id = left_at_work(config, open_own_session)
    recorded = reader_of(config).run(run_id)
    with contextlib.closing(sqlite3.connect(config.registry_path)) as registry, registry:
        registry.execute("DELETE FROM potato_ray_run_items WHERE split IN ('test', 'unlabeled')")
        registry.execute("UPDATE potato_ray_runs SET n_test = NULL, n_unlabeled = NULL")
    (folder_of(config, run_id).path / "go").touch()
    open_own_session(config)
    run = ended(config, run_id)
    assert run.state == State.SUCCESS, run.error
    assert (run.n_test, run.n_unlabeled) == (recorded.n_test, recorded.n_unlabeled)


def test_a_run_whose_processes_are_gone_is_interrupted(
    make_project: MakeProject, open_own_session: OpenSession
) -> None:
    config = make_project()
    run_id = left_at_work(config, open_own_session)
    kill_launcher(folder_of(config, run_id))
    open_own_session(config)
    run = ended(config, run_id)
    assert run.state == State.INTERRUPTED


def kill_launcher(folder: JobFolder) -> None:
    process = folder.read_processes()
    assert process is not None
    os.kill(process.launcher.pid, signal.SIGKILL)


def test_the_queue_goes_on_after_a_restart(make_project: MakeProject, open_own_session: OpenSession) -> None:
    config = make_project()
    first = open_own_session(config)
    blocking = start(first, act="wait")
    waiting = start(first, act="succeed")
    wait_until(config, blocking, in_step("rehearsing"))
    first.close()
    second = open_own_session(config)
    second.call("cancel", blocking)
    assert ended(config, blocking).state == State.CANCELLED
    assert ended(config, waiting).state == State.SUCCESS


def test_a_card_stays_taken_after_a_restart_while_its_launcher_lives(
    make_project: MakeProject,
    open_own_session: OpenSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    freest, other = give_gpus(monkeypatch, tmp_path, [30000, 20000])
    config = make_project(max_concurrent_runs=2)
    before = open_own_session(config)
    first = start(before, "accelerated", act="wait")
    wait_until(config, first, in_step("rehearsing"))
    before.close()
    after = open_own_session(config)
    second = start(after, "accelerated", act="wait")
    run = wait_until(config, second, in_step("rehearsing"))
    assert run.gpu_uuids == (other,)
    assert {uuid for each in reader_of(config).reservations() for uuid in each.gpu_uuids} == {freest, other}
    for run_id in (first, second):
        after.call("cancel", run_id)
        assert ended(config, run_id).state == State.CANCELLED


def test_a_killed_controller_goes_on_by_itself(
    make_project: MakeProject, open_own_session: OpenSession
) -> None:
    config = make_project()
    session = open_own_session(config)
    run_id = start(session, act="wait")
    wait_until(config, run_id, in_step("rehearsing"))
    os.kill(session.call("ready")["pid"], signal.SIGKILL)
    (folder_of(config, run_id).path / "go").touch()
    run = ended(config, run_id)
    assert (run.state, run.attempt) == (State.SUCCESS, 1), run.error
