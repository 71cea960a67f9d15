"""Another program holds the write lock of project.sqlite for longer than anybody waits for it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from statistics import median

import httpx
import pytest
from command_line import potato_ray
from server_process import API, ServerProcess
from sound_registry import is_sound
from whole_runs import MakeProject, ended, folder_of, in_step, reader_of, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.registry.connection import BUSY_TIMEOUT_S
from potato_ray.registry.states import State
from potato_ray.registry.store import Registry

pytestmark = pytest.mark.ray

LOCKED_S = BUSY_TIMEOUT_S + (5.0 if os.environ.get("POTATO_RAY_LONG") else 1.5)
LEASE_S = 10
"""Shorter than the lock: the worker must not be taken for abandoned because of it."""
PAGES = ("/admin/training", f"{API}/status", f"{API}/runs", "/health")
HOLDER = """
import sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("BEGIN IMMEDIATE")
print("locked", flush=True)
sys.stdin.read()
"""


@contextlib.contextmanager
def locked(config: ProjectConfig) -> Iterator[None]:
    """Hold the lock from another process, as a database browser may."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(config.registry_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        yield
        holder.stdin.close()


def answered_within(server: ServerProcess, until: float) -> list[float]:
    """How long each page took to answer, in seconds, asked again and again until then."""
    took_s = []
    with httpx.Client(base_url=server.url, headers=server.headers(), timeout=10.0) as client:
        while time.monotonic() < until:
            for page in PAGES:
                began = time.monotonic()
                assert client.get(page).status_code == 200
                took_s.append(time.monotonic() - began)
            time.sleep(0.1)
    return took_s


@pytest.mark.alone
def test_a_start_waits_pages_answer_and_the_run_under_way_loses_nothing(make_project: MakeProject) -> None:
    config = make_project(survive_s=LEASE_S)
    with contextlib.closing(ServerProcess(config, "--no-spare")) as server, ThreadPoolExecutor(1) as threads:
        server.wait_ready()
        under_way = server.start_run("wait")
        wait_until(config, under_way, in_step("rehearsing"))
        with locked(config):
            until = time.monotonic() + LOCKED_S
            (folder_of(config, under_way).path / "go").touch()
            started = threads.submit(server.start_run, "succeed")
            took_s = answered_within(server, until)
            assert not started.done()
            assert not reader_of(config).run(under_way).ended
        assert median(took_s) < 0.1, took_s
        assert max(took_s) < 2.0, took_s
        runs = [ended(config, under_way), ended(config, started.result(timeout=60))]
        assert [(run.state, run.attempt) for run in runs] == [(State.SUCCESS, 1)] * 2
        assert len(reader_of(config).runs()) == 2
        assert is_sound(config)


@pytest.mark.long
def test_a_server_that_is_started_meanwhile_says_what_it_waited_for(make_project: MakeProject) -> None:
    config = make_project()
    Registry(config.registry_path, config.annotation_task_name).open().close()
    with locked(config):
        told = potato_ray("start", config.path, "--port", "0", "--no-spare")
    assert told.returncode == 1
    assert "Error (registry_locked):" in told.stderr, told.stderr
    with contextlib.closing(ServerProcess(config, "--no-spare")) as server:
        server.wait_ready()
        assert ended(config, server.start_run("succeed")).state == State.SUCCESS
