"""The project's disk is full while a run builds, while its worker is at work, and when one is started."""

from __future__ import annotations

import contextlib
import json
import subprocess

import httpx
import pytest
from command_line import potato_ray
from server_process import API, ServerProcess
from small_disk import SmallDisk
from sound_registry import is_sound
from whole_runs import MakeProject, OpenSession, ended, folder_of, in_step, reader_of, start, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.job.failures import DISK_FULL
from potato_ray.job.folder import JobFolder
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

STARTS = 200
PAGES = ("/admin/training", f"{API}/status", f"{API}/runs", f"{API}/trainers", "/health")


def lengthen_texts(config: ProjectConfig, characters: int) -> None:
    path = config.task_dir / "data" / "reviews.json"
    items = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps([{**item, "text": item["text"].ljust(characters, ".")} for item in items]))


def post(server: ServerProcess) -> httpx.Response:
    body = {"trainer": "rehearsal", "schemas": ["sentiment"], "params": {"act": "succeed"}}
    return httpx.post(f"{server.url}{API}/runs", json=body, headers=server.headers(), timeout=40.0)


def answers(server: ServerProcess) -> dict[str, int]:
    return {
        page: httpx.get(server.url + page, headers=server.headers(), timeout=10.0).status_code
        for page in PAGES
    }


def test_a_disk_that_a_build_fills_fails_that_run_alone(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    lengthen_texts(config, 20_000)
    with SmallDisk(config.task_dir, size_mb=16) as disk:
        session = open_session(config)
        disk.fill(leave_kb=2000)
        run = ended(config, start(session))
        assert (run.state, run.error_code) == (State.ERROR, "bundle_failed"), run.error
        assert (run.error, run.error_evidence) == (
            "The training data could not be written.",
            "No space left on device.",
        )
        assert [path.name for path in folder_of(config, run.run_id).path.glob(".bundle.*")] == []
        disk.free()
        assert ended(config, start(session)).state == State.SUCCESS
        session.close()
        assert is_sound(config)


def test_a_worker_on_a_full_disk_ends_its_run_with_that_reason_and_the_next_succeeds(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project()
    with SmallDisk(config.task_dir, size_mb=16) as disk:
        session = open_session(config)
        run_id = start(session, act="wait")
        wait_until(config, run_id, in_step("rehearsing"))
        disk.fill()
        (folder_of(config, run_id).path / "go").touch()
        wait_until_worker_is_gone(folder_of(config, run_id))
        assert not reader_of(config).run(run_id).ended
        disk.free()
        run = ended(config, run_id)
        assert (run.state, run.error_code, run.error) == (State.ERROR, "fit_failed", DISK_FULL)
        assert "Free some space" in run.error_next_step
        assert ended(config, start(session)).state == State.SUCCESS
        session.close()
        assert is_sound(config)


def wait_until_worker_is_gone(folder: JobFolder) -> None:
    processes = folder.read_processes()
    assert processes is not None
    subprocess.run(
        ["tail", "--pid", str(processes.worker.pid), "-f", "/dev/null"], timeout=30, check=True
    )  # a zombie is gone too, once its launcher has taken leave of it


def test_a_cancel_reaches_a_worker_on_a_full_disk(
    make_project: MakeProject, open_session: OpenSession
) -> None:
    config = make_project(grace_seconds=2)
    with SmallDisk(config.task_dir, size_mb=16) as disk:
        session = open_session(config)
        run_id = start(session, act="wait")
        wait_until(config, run_id, in_step("rehearsing"))
        disk.fill()
        folder_of(config, run_id).request_cancel("cancelled", 2.0)
        wait_until_worker_is_gone(folder_of(config, run_id))
        disk.free()
        assert ended(config, run_id).state == State.CANCELLED


def test_a_start_on_a_full_disk_is_refused_in_words_and_no_acknowledged_one_is_lost(
    make_project: MakeProject,
) -> None:
    config = make_project(queue_max=STARTS)
    with SmallDisk(config.task_dir, size_mb=16) as disk:
        with contextlib.closing(ServerProcess(config, "--no-spare")) as server:
            server.wait_ready()
            disk.fill()
            acknowledged, refused = start_until_refused(server)
            assert (refused.status_code, refused.json()["error_code"]) == (507, "disk_full")
            assert refused.json()["started"] is False
            assert "Free some space" in refused.json()["next_step"]
            assert int(refused.headers["Retry-After"]) > 0
            assert set(answers(server).values()) == {200}
            disk.free()
            acknowledged.append(post(server).json()["run_id"])
            assert {ended(config, run_id).state for run_id in acknowledged} == {State.SUCCESS}
            assert {run.run_id for run in reader_of(config).runs(limit=500)} == set(acknowledged)
            disk.fill()
            server.process.kill()
            server.process.wait(30)
        assert_refused_by_the_command(config)
        disk.free()
        assert is_sound(config)
        with contextlib.closing(ServerProcess(config, "--no-spare")) as server:
            server.wait_ready()
            assert ended(config, server.start_run("succeed")).state == State.SUCCESS


def start_until_refused(server: ServerProcess) -> tuple[list[str], httpx.Response]:
    """The runs that were acknowledged, for which the registry still had room, and the first refusal."""
    acknowledged: list[str] = []
    for _ in range(STARTS):
        answer = post(server)
        if answer.status_code not in (200, 202):
            return acknowledged, answer
        acknowledged.append(answer.json()["run_id"])
    raise AssertionError(f"{STARTS} runs were acknowledged on a full disk")


def assert_refused_by_the_command(config: ProjectConfig) -> None:
    told = potato_ray("start", config.path, "--port", "0")
    assert told.returncode == 1
    assert told.stderr.startswith("Error (disk_full): The disk of the project is full."), told.stderr
    listed = potato_ray("training", "runs", config.path)
    assert (listed.returncode, listed.stderr) == (0, "")
