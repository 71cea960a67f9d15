"""A project's folder is moved, or copied, with and without a run under way in it."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path

import httpx
import pytest
from server_process import API, ServerProcess
from sound_registry import is_sound
from whole_runs import MakeProject, OpenSession, ended, folder_of, in_step, reader_of, start, wait_until

from potato_ray.config import ProjectConfig, load
from potato_ray.job import processes
from potato_ray.job.follow import ALIVE, Follower
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray


def moved(config: ProjectConfig) -> ProjectConfig:
    """The project under another name beside its old place."""
    new = config.task_dir.with_name("moved")
    config.task_dir.rename(new)
    return load(new / config.path.name)


def copied(config: ProjectConfig) -> ProjectConfig:
    """A copy of everything, as `cp -a` makes it."""
    new = config.task_dir.with_name("copied")
    shutil.copytree(config.task_dir, new, symlinks=True)
    return load(new / config.path.name)


def text_of(server: ServerProcess, path: str) -> str:
    answer = httpx.get(server.url + path, headers=server.headers(), timeout=10.0)
    assert answer.status_code == 200, f"{path}: {answer.text}"
    return answer.text


def test_a_moved_project_has_its_runs_and_what_was_under_way_in_it_is_interrupted(
    make_project: MakeProject, open_own_session: OpenSession
) -> None:
    old = make_project()
    session = open_own_session(old)
    run = ended(old, start(session))
    cut_off = start(session, act="wait")
    wait_until(old, cut_off, in_step("rehearsing"))
    job = folder_of(old, cut_off).read_processes()
    assert job is not None
    session.close()
    config = moved(old)
    with contextlib.closing(ServerProcess(config, "--no-spare")) as server:
        server.wait_ready()
        gone = ended(config, cut_off)
        assert (gone.state, gone.attempt) == (State.INTERRUPTED, 1)
        assert "No launcher works in the run's folder" in gone.error_evidence
        assert processes.marked(job.markers) == []
        assert run.model_version in text_of(server, f"/admin/training/runs/{run.run_id}")
        assert "label" in text_of(server, f"{API}/runs/{run.run_id}/artifacts/model.json")
        assert "rehearsing" in text_of(server, f"{API}/runs/{run.run_id}/log")
        again = ended(config, server.start_run("succeed"))
        assert again.state == State.SUCCESS
        assert again.bundle_digest == run.bundle_digest
    assert not old.task_dir.exists()
    assert is_sound(config)


def test_serving_a_copy_leaves_the_server_of_the_original_and_its_run_alone(
    make_project: MakeProject,
) -> None:
    config = make_project()
    with contextlib.closing(ServerProcess(config, "--no-spare")) as server:
        server.wait_ready()
        run_id = server.start_run("wait")
        wait_until(config, run_id, in_step("rehearsing"))
        copy = copied(config)
        with contextlib.closing(ServerProcess(copy, "--no-spare")) as second:
            second.wait_ready()
            assert ended(copy, run_id).state == State.INTERRUPTED
            assert ended(copy, second.start_run("succeed")).state == State.SUCCESS
        assert Follower(folder_of(config, run_id)).state() == ALIVE
        assert server.health()["controller"] == "ready"
        (folder_of(config, run_id).path / "go").touch()
        run = ended(config, run_id)
        assert (run.state, run.attempt) == (State.SUCCESS, 1), run.error
        assert ended(config, server.start_run("succeed")).state == State.SUCCESS
        assert [each.run_id for each in reader_of(config).runs()][1:] == [run_id]
        assert Path(config.state_dir / "ray.json").exists()
    assert is_sound(config)
    assert is_sound(copy)
