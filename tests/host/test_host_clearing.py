"""Clearing up: nothing of a run is left on the host, whatever state it was in."""

from __future__ import annotations

import json
import time
from pathlib import Path
from socket import gethostname

import pytest
from agent_at_work import offer
from forwarded import Forwarded
from host_talk import secrets_for


def started(host, server):
    """An agent whose job has a worker that waits, and its socket's folder."""
    talk = host.run()
    ready = talk.line_with("ready")
    with Forwarded(ready["socket"], server.port):
        talk.send_line(secrets_for(ready["socket"], server.token))
        deadline = time.monotonic() + 30.0
        while not (host.job / "events.jsonl").exists():
            assert time.monotonic() < deadline, talk.said
            time.sleep(0.02)
    return talk, Path(ready["socket"]).parent


def test_after_a_run_nothing_of_it_is_left_but_what_is_shared(host, server, tmp_path) -> None:
    offer(server, tmp_path)
    talk = host.run()
    ready = talk.line_with("ready")
    with Forwarded(ready["socket"], server.port):
        talk.send_line(secrets_for(ready["socket"], server.token))
        talk.line_with("end")
        talk.ended()
    assert host.request("clear_up")["cleared"] == {"killed": [], "left": [], "problem": ""}
    left = sorted(path.name for path in host.remote_dir.rglob("*") if path.parent == host.remote_dir)
    assert left == ["code", "runs"]
    assert list((host.remote_dir / "runs").iterdir()) == []
    assert not Path(ready["socket"]).parent.exists()
    assert host.left() == []


def test_what_still_runs_is_killed_agent_launcher_and_worker(host, server, tmp_path) -> None:
    offer(server, tmp_path, "stubborn")
    talk, socket_folder = started(host, server)
    cleared = host.request("clear_up", wait_s=0.2)["cleared"]
    assert talk.process.pid in cleared["killed"]
    assert (cleared["left"], cleared["problem"]) == ([], "")
    assert host.left() == []
    assert not host.folder.exists()
    assert not socket_folder.exists()


def test_a_job_whose_agent_is_gone_is_ended_as_well(one_host, server, tmp_path) -> None:
    offer(server, tmp_path, "wait")
    talk, socket_folder = started(one_host, server)
    talk.process.kill()
    talk.ended()
    assert one_host.request("clear_up")["cleared"]["left"] == []
    assert one_host.left() == []
    assert not one_host.folder.exists()
    assert not socket_folder.exists()


def test_a_run_that_is_to_be_kept_loses_its_processes_and_socket_alone(one_host, server, tmp_path) -> None:
    offer(server, tmp_path, "wait")
    _, socket_folder = started(one_host, server)
    one_host.request("clear_up", wait_s=0, keep=True)
    assert (one_host.job / "spec.json").is_file()
    assert one_host.left() == []
    assert not socket_folder.exists()


def test_other_runs_are_left_alone(one_host, server, tmp_path) -> None:
    offer(server, tmp_path, "wait")
    talk, socket_folder = started(one_host, server)
    one_host.request("clear_up", run_id="run-2", wait_s=0)
    assert talk.process.poll() is None
    assert one_host.job.is_dir()
    assert socket_folder.is_dir()


def test_clearing_up_twice_and_what_was_never_there_is_no_error(one_host) -> None:
    for _ in range(2):
        cleared = one_host.request("clear_up")["cleared"]
        assert cleared == {"killed": [], "left": [], "problem": ""}


def note_of(host, socket: str, machine: str) -> None:
    """Leave the note of an agent that was started on some machine."""
    host.folder.mkdir(parents=True)
    process = {"pid": 1, "start_ticks": 0, "host": machine}
    (host.folder / "agent.json").write_text(json.dumps({"process": process, "socket": socket}))


def test_no_folder_is_taken_for_that_of_a_socket_because_a_file_says_so(one_host, tmp_path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    note_of(one_host, f"{precious}/s", gethostname())
    assert one_host.request("clear_up")["cleared"]["problem"] == ""
    assert precious.is_dir()


@pytest.mark.parametrize("keep", [False, True])
def test_the_socket_of_a_worker_that_was_killed_as_it_loaded_ahead_goes(one_host, tmp_path, keep) -> None:
    address = tmp_path / "spare-0a1b2c3d" / "socket"
    address.parent.mkdir()
    address.touch()
    one_host.folder.mkdir(parents=True)
    (one_host.folder / "spare.where").write_text(str(address))
    one_host.request("clear_up", keep=keep)
    assert not address.parent.exists()


def test_what_an_agent_on_another_machine_may_be_at_is_not_removed(one_host) -> None:
    note_of(one_host, "/tmp/potato-12345678/s", "login2")
    assert "was started on login2" in one_host.request("clear_up")["cleared"]["problem"]
    assert one_host.folder.is_dir()


def test_a_job_whose_agent_has_not_heard_of_the_cancel_is_stopped_by_a_request_over_there(
    host, server, tmp_path
) -> None:
    offer(server, tmp_path, "wait")
    started(host, server)
    stopped = host.request("stop", grace_s=5.0, wait_s=20.0)["stopped"]
    assert stopped["ended"]
    assert json.loads((host.job / "exit.json").read_text("utf-8"))["reason"] == "cancelled"
    assert json.loads((host.job / "cancel.json").read_text("utf-8"))["grace_s"] == 5.0


def test_a_job_that_does_not_end_in_time_is_told_to_be_there(one_host, server, tmp_path) -> None:
    offer(server, tmp_path, "stubborn")
    started(one_host, server)
    stopped = one_host.request("stop", grace_s=30.0, wait_s=0.2)["stopped"]
    assert stopped == {"ended": False, "has_artifacts": False}


def test_where_no_job_is_nothing_has_to_be_stopped(one_host) -> None:
    assert one_host.request("stop", grace_s=5.0, wait_s=5.0)["stopped"] == {
        "ended": True,
        "has_artifacts": False,
    }
