"""The project's disk is read-only: at the start of a server, while it is idle, and under a run."""

from __future__ import annotations

import contextlib
import time

import httpx
import pytest
from command_line import potato_ray
from server_process import API, ServerProcess
from small_disk import SmallDisk
from sound_registry import is_sound
from whole_runs import MakeProject, OpenSession, ended, folder_of, in_step, reader_of, start, wait_until

from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

PAGES = ("/admin/training", f"{API}/status", f"{API}/runs", f"{API}/backends", "/health")
MORE_THAN_A_BEAT_S = 2.5
"""Of the heartbeat and of the lease, which are touched each second."""


def test_a_server_is_not_started_on_it_and_its_runs_can_be_listed_all_the_same(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    with SmallDisk(config.task_dir, size_mb=16) as disk:
        session = open_session(config)
        run_id = ended(config, start(session)).run_id
        session.close()
        with disk.read_only():
            for words in (("start", config.path), ("training", "cancel", run_id, config.path)):
                told = potato_ray(*words)
                assert told.returncode == 1
                assert told.stderr.startswith("Error (project_unwritable): The project cannot be written to.")
                assert "Read-only file system" in told.stderr
            assert run_id in potato_ray("training", "runs", config.path).stdout
            assert potato_ray("training", "show", run_id, config.path).returncode == 0


def test_a_run_on_it_fails_in_words_and_pages_answer(make_project: MakeProject) -> None:
    config = make_project()
    with (
        SmallDisk(config.task_dir, size_mb=16) as disk,
        contextlib.closing(ServerProcess(config, "--no-spare")) as server,
    ):
        server.wait_ready()
        with disk.read_only():
            run = ended(config, server.start_run("succeed"))
            assert run.state == State.ERROR
            assert "Read-only file system" in run.error_evidence
            assert "mounted read-only" in run.error_next_step
            asked = [httpx.get(server.url + page, headers=server.headers(), timeout=10.0) for page in PAGES]
            assert [answer.status_code for answer in asked] == [200] * len(PAGES)
        assert ended(config, server.start_run("succeed")).state == State.SUCCESS
        assert is_sound(config)


def test_a_run_under_way_outlasts_it(make_project: MakeProject, open_session: OpenSession) -> None:
    config = make_project()
    with SmallDisk(config.task_dir, size_mb=16) as disk:
        session = open_session(config)
        run_id = start(session, act="wait")
        wait_until(config, run_id, in_step("rehearsing"))
        with disk.read_only():
            time.sleep(MORE_THAN_A_BEAT_S)
            assert reader_of(config).run(run_id).state == State.RUNNING
        (folder_of(config, run_id).path / "go").touch()
        assert ended(config, run_id).state == State.SUCCESS
        session.close()
        assert is_sound(config)
