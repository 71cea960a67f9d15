"""Somebody sets the clock by hours, forwards and back: no run is ended by it, nothing is out of order."""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from job_making import make_job
from jumping_clock import HOUR_S, SHIFTED, JumpingClock
from server_process import API, ServerProcess
from whole_runs import MakeProject, ended, folder_of, in_step, reader_of, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.job.folder import JobFolder, read_json, write_json
from potato_ray.job.follow import ALIVE, Follower
from potato_ray.registry.states import State

JUMPS_H = (5.0, -7.0, -3.0)
FOLLOWED_S = 1.2
"""How long each lasts: longer than the time between two heartbeats, leases and looks at the limits."""
LIMITS = {"max_wall_s": 60.0, "lost_after_s": 20.0}
LAUNCHER = "import sys; from potato_ray.job.launcher import main; sys.exit(main(sys.argv[1:]))"


@pytest.fixture
def clock(tmp_path: Path) -> JumpingClock:
    return JumpingClock(tmp_path)


@contextlib.contextmanager
def launched(folder: Path, clock: JumpingClock) -> Iterator[subprocess.Popen[bytes]]:
    """A launcher and its worker, to both of which the clock jumps."""
    spec = JobFolder(folder).spec
    body = read_json(spec) or {}
    write_json(spec, {**body, "env": {"PYTHONPATH": f"{SHIFTED}{os.pathsep}{body['env']['PYTHONPATH']}"}})
    command = [sys.executable, "-c", LAUNCHER, str(folder), "--foreground"]
    with subprocess.Popen(command, env={**clock.environment}) as launcher:
        try:
            yield launcher
        finally:
            launcher.kill()


def test_a_launcher_ends_no_worker_because_the_clock_jumps(tmp_path: Path, clock: JumpingClock) -> None:
    job = make_job(tmp_path / "job", "wait", **LIMITS)
    follower = Follower(JobFolder(job.folder))
    with launched(job.folder, clock) as launcher:
        for hours in JUMPS_H:
            clock.jump(hours)
            until = time.monotonic() + FOLLOWED_S
            while time.monotonic() < until:
                follower.renew_lease()
                time.sleep(0.1)
            assert follower.state() == ALIVE
        (job.folder / "go").touch()
        assert launcher.wait(20) == 0
    end = follower.folder.read_exit()
    said = follower.poll()
    assert end is not None
    assert (end.code, end.reason) == (0, "")
    assert said[-1]["event"] == "result"
    assert abs(said[0]["t"] - said[-1]["t"]) > 2 * HOUR_S, "the clock did not jump"


def test_the_limit_of_a_run_is_kept_whatever_the_clock_does(tmp_path: Path, clock: JumpingClock) -> None:
    job = make_job(tmp_path / "job", "wait", max_wall_s=2.0, lost_after_s=20.0)
    began = time.monotonic()
    with launched(job.folder, clock) as launcher:
        clock.jump(-7.0)
        launcher.wait(20)
    end = JobFolder(job.folder).read_exit()
    assert end is not None
    assert end.reason == "wall_clock"
    assert time.monotonic() - began < 10.0


def ids(server: ServerProcess) -> list[str]:
    answer = httpx.get(f"{server.url}{API}/runs", headers=server.headers(), timeout=10.0)
    return [run["run_id"] for run in answer.json()["runs"]]


def status(server: ServerProcess) -> dict[str, Any]:
    return dict(httpx.get(f"{server.url}{API}/status", headers=server.headers(), timeout=10.0).json())


def numbers_of_events(config: ProjectConfig, run_id: str) -> list[int]:
    return [int(event["id"]) for event in reader_of(config).events(run_id, limit=1000)]


@pytest.mark.ray
def test_a_server_and_its_runs_outlast_a_jumping_clock(
    make_project: MakeProject, clock: JumpingClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_project(max_wall_seconds=600, survive_s=60)
    for name, value in clock.environment.items():
        monkeypatch.setenv(name, value)
    with contextlib.closing(ServerProcess(config, "--no-spare")) as server:
        server.wait_ready()
        made = [server.start_run("wait")]
        wait_until(config, made[0], in_step("rehearsing"))
        for hours in JUMPS_H:
            clock.jump(hours)
            made.append(server.start_run("succeed"))
            time.sleep(FOLLOWED_S)
            said = status(server)
            assert abs(said["server_time"] - clock()) < 5.0
            assert said["state"] == "running"
            assert said["run"]["elapsed_s"] >= 0.0
            assert httpx.get(f"{server.url}/health", timeout=10.0).json()["controller"] == "ready"
        assert [run["run_id"] for run in said["queue"]] == made[1:]
        (folder_of(config, made[0]).path / "go").touch()
        runs = [ended(config, run_id) for run_id in made]
        assert [(run.state, run.attempt) for run in runs] == [(State.SUCCESS, 1)] * len(made)
        assert ids(server) == made[::-1]
        assert status(server)["last"]["run_id"] == made[-1]
        for run in runs:
            assert run.duration_s is None or run.duration_s >= 0.0
            numbers = numbers_of_events(config, run.run_id)
            assert numbers == list(range(1, len(numbers) + 1))
            page = httpx.get(f"{server.url}/admin/training/runs/{run.run_id}", headers=server.headers())
            assert page.status_code == 200
            assert re.findall(r">\s*-\d[\d.]* (?:s|min|h)", page.text) == []
        assert "Traceback" not in server.said
