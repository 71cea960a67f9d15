"""The server as a process of its own: its start, its ends, what it leaves, and how it gets Ray back."""

from __future__ import annotations

import contextlib
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from server_process import API, PROGRAM, ServerProcess
from test_commands import kill_ray
from whole_runs import MakeProject, ended, folder_of, reader_of, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.job import processes
from potato_ray.job.folder import read_json
from potato_ray.job.follow import ALIVE, Follower
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

HEALTH_WITHIN_S = 1.5
Serve = Callable[..., ServerProcess]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Starts servers, and kills what a failed test has left of them."""
    servers: list[ServerProcess] = []

    def start(config: ProjectConfig, *arguments: str, **options: Any) -> ServerProcess:
        servers.append(ServerProcess(config, *arguments, **options))
        return servers[-1]

    yield start
    for each in servers:
        each.close()


def rehearsing(config: ProjectConfig, run_id: str) -> None:
    """Wait until the worker of a run is at work."""
    wait_until(config, run_id, lambda run: run.step == "rehearsing")


def lives(config: ProjectConfig, run_id: str) -> bool:
    return Follower(folder_of(config, run_id)).state() == ALIVE


def nothing_is_left_of(server: ServerProcess, session: Path) -> bool:
    """No process but those of its runs, no session folder, no note."""
    runs = reader_of(server.config).runs() if server.config.registry_path.exists() else []
    markers = [mark for run in runs for mark in marks(server.config, run.run_id)]
    notes = [server.config.state_dir / name for name in ("server.json", "ray.json")]
    left = set(server.processes()) - set(processes.marked(markers) if markers else [])
    launchers = {pid for pid in left if "job/start.py" in Path(f"/proc/{pid}/cmdline").read_text()}
    return not (left - launchers) and not session.exists() and not any(note.exists() for note in notes)


def marks(config: ProjectConfig, run_id: str) -> list[str]:
    return list((read_json(folder_of(config, run_id).process) or {}).get("markers", []))


def session_of(config: ProjectConfig) -> Path:
    note = read_json(config.state_dir / "ray.json")
    assert note is not None
    return Path(note["folder"])


@pytest.mark.alone
def test_health_answers_soon_and_a_stop_while_ray_comes_up_leaves_nothing(
    make_project: MakeProject, serve: Serve
) -> None:
    config, took_s = make_project(), []
    while min(took_s, default=9.0) > HEALTH_WITHIN_S and len(took_s) < 3:  # others use this machine too
        server = serve(config)
        assert server.health() == {"status": "ok", "controller": "starting"}
        took_s.append(time.monotonic() - server.began)
        server.wait_until((config.state_dir / "ray.json").exists)
        session = session_of(config)
        assert server.end(signal.SIGTERM) == 0, server.said
        assert "Traceback" not in server.said
        assert nothing_is_left_of(server, session)
    assert min(took_s) <= HEALTH_WITHIN_S, took_s


def test_a_start_posted_while_ray_comes_up_is_made_and_a_second_server_is_refused(
    make_project: MakeProject, serve: Serve
) -> None:
    config = make_project()
    server = serve(config)
    assert server.health()["controller"] == "starting"
    run_id = server.start_run("succeed")
    second = serve(config)
    assert second.end() == 1
    assert f"in use by potato-ray start, process {server.process.pid}" in second.said
    assert server.url in second.said
    third = serve(make_project(), port=int(server.url.rpartition(":")[2]))
    assert third.end() == 1
    assert "is in use by another program" in third.said
    assert "Traceback" not in second.said + third.said
    assert ended(config, run_id).state == State.SUCCESS
    assert server.end(signal.SIGINT) == 130, server.said


def test_a_configuration_with_errors_is_refused_as_validate_refuses_it(
    make_project: MakeProject, serve: Serve
) -> None:
    config = make_project()
    config.path.write_text(
        config.path.read_text("utf-8").replace("queue_max", "queue_mux") + "\ntask_dir: 3\n"
    )
    server = serve(config)
    assert server.end() == 1
    validate = [sys.executable, "-c", PROGRAM, "validate", str(config.path)]
    validated = subprocess.run(validate, capture_output=True, text=True, timeout=60, check=False)
    assert validated.returncode == 1
    assert validated.stdout.strip() == server.said.strip()


def test_a_run_outlives_two_servers_and_the_third_follows_it(make_project: MakeProject, serve: Serve) -> None:
    config = make_project()
    first = serve(config).wait_ready()
    run_id, session = first.start_run("wait"), session_of(config)
    rehearsing(config, run_id)
    assert first.end(signal.SIGINT) == 130, first.said
    assert f"run {run_id} goes on by itself for 300 s" in first.said
    assert "Ctrl-C again within 5 s cancels it" in first.said
    assert nothing_is_left_of(first, session)
    second = serve(config).wait_ready()
    session = session_of(config)
    with streaming(second):
        began = time.monotonic()
        assert second.end(signal.SIGTERM) == 0, second.said
        assert time.monotonic() - began < 10.0
    assert f"run {run_id} goes on by itself for 300 s" in second.said
    assert "Traceback" not in first.said + second.said
    assert nothing_is_left_of(second, session)
    assert lives(config, run_id)
    third = serve(config).wait_ready()
    (folder_of(config, run_id).path / "go").touch()
    assert ended(config, run_id).state == State.SUCCESS
    assert reader_of(config).run(run_id).attempt == 1
    assert third.end(signal.SIGHUP) == 0


def streaming(server: ServerProcess) -> socket.socket:
    """An open stream of events."""
    connection = socket.create_connection(("127.0.0.1", int(server.url.rpartition(":")[2])), timeout=10.0)
    (name, key), *_ = server.headers().items()
    request = f"GET {API}/stream HTTP/1.1\r\nHost: 127.0.0.1\r\n{name}: {key}\r\n\r\n"
    connection.sendall(request.encode("ascii"))
    assert b" 200 " in connection.recv(100)
    return connection


def test_the_second_ctrl_c_cancels_the_run(make_project: MakeProject, serve: Serve) -> None:
    config = make_project(grace_seconds=2)
    server = serve(config).wait_ready()
    run_id, session = server.start_run("wait"), session_of(config)
    rehearsing(config, run_id)
    server.process.send_signal(signal.SIGINT)
    server.wait_until(lambda: "Ctrl-C again" in server.said)
    assert server.end(signal.SIGINT) == 130, server.said
    assert reader_of(config).run(run_id).state == State.CANCELLED
    assert not lives(config, run_id)
    assert "Traceback" not in server.said
    assert nothing_is_left_of(server, session)


def test_a_lost_ray_comes_back_and_runs_start_again(make_project: MakeProject, serve: Serve) -> None:
    config = make_project()
    server = serve(config).wait_ready()
    first = server.start_run("wait")
    rehearsing(config, first)
    lost = session_of(config)
    kill_ray(server.process.pid)
    server.wait_until(lambda: server.health()["controller"] == "restarting")
    second = server.start_run("succeed")  # waits for the controller
    (folder_of(config, first).path / "go").touch()
    assert [ended(config, run_id).state for run_id in (first, second)] == [State.SUCCESS, State.SUCCESS]
    assert reader_of(config).run(first).attempt == 1
    session = session_of(config)
    assert server.end(signal.SIGINT) == 130, server.said
    assert not lost.exists()
    assert nothing_is_left_of(server, session)


def test_the_demo_serves_its_run_at_the_next_free_port(make_project: MakeProject, serve: Serve) -> None:
    config = make_project()
    with contextlib.ExitStack() as taken:
        with contextlib.suppress(OSError):
            taken.enter_context(socket.create_server(("127.0.0.1", 8000)))
        server = serve(config, "--folder", str(config.task_dir), command="demo").wait_ready()
    assert not server.url.endswith(":8000")
    answer = httpx.get(f"{server.url}{API}/runs", headers=server.headers(), timeout=10.0)
    assert [run["state"] for run in answer.json()["runs"]] == ["success"]
    assert server.end(signal.SIGINT) == 130, server.said
    assert "Traceback" not in server.said
