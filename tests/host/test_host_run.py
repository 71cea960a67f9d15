"""One run on a host: its agent is started, does the job through the socket, and ends clean."""

from __future__ import annotations

import os
import signal
import stat
import time
from contextlib import contextmanager
from pathlib import Path

from agent_at_work import offer
from forwarded import Forwarded
from host_talk import LEASE, secrets_for

from potato_ray.job.folder import JobFolder


@contextmanager
def agent_of(host, server, **secrets):
    """A started agent with its secrets, and the socket forwarded to the server."""
    talk = host.run()
    ready = talk.line_with("ready")
    with Forwarded(ready["socket"], server.port):
        talk.send_line(secrets_for(ready["socket"], server.token, **secrets))
        yield talk


def test_a_whole_job_goes_over_the_socket(host, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    with agent_of(host, server) as talk:
        assert talk.line_with("agent")["log"] == str(host.folder / "agent.log")
        assert talk.line_with("end") == {"how": "delivered", "why": ""}
        assert talk.ended() == 0
    assert told.result["exit"]["code"] == 0
    assert told.predictions.count(b"\n") == 10
    assert told.lease == LEASE
    assert told.result["artifact_uri"] == f"gpubox:{host.job / 'artifacts'}"
    assert (host.job / "artifacts" / "model.json").is_file()


def test_the_worker_runs_under_the_python_of_the_host(host, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    with agent_of(host, server) as talk:
        talk.line_with("end")
    [claim] = server.claims
    assert claim["agent"]["python"].split(".")[:2] == told_version(host)
    assert any(host.python in note.get("message", "") for note in told.notes)


def test_a_job_whose_code_is_that_of_the_host_fetches_none(one_host, server, tmp_path) -> None:
    parcel = {"sha256": one_host.archive.sha256, "bytes": one_host.archive.n_bytes}
    told = offer(server, tmp_path, code=parcel)
    with agent_of(one_host, server) as talk:
        talk.line_with("end")
    assert told.result["exit"]["code"] == 0
    assert "code" not in server.requests


def test_a_job_that_comes_with_the_lease_is_not_asked_for(host, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    told.lease = LEASE
    with agent_of(host, server, job=told.job) as talk:
        assert talk.line_with("end") == {"how": "delivered", "why": ""}
    assert "claim" not in server.requests
    assert told.result["exit"]["code"] == 0


def test_what_comes_with_the_lease_and_is_not_this_run_is_asked_for(one_host, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    with agent_of(one_host, server, job={**told.job, "run_id": "another"}) as talk:
        assert talk.line_with("end") == {"how": "delivered", "why": ""}
    assert "claim" in server.requests


def test_ways_to_the_server_are_open_before_the_secrets_come(one_host, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    talk = one_host.run()
    socket = talk.line_with("ready")["socket"]
    with Forwarded(socket, server.port) as forwarded:
        wait_for(lambda: forwarded.n_connections == 2)
        talk.send_line(secrets_for(socket, server.token))
        assert talk.line_with("end")["how"] == "delivered"
    assert told.result["exit"]["code"] == 0


def told_version(host) -> list[str]:
    return host.ask("probe").line()["facts"]["version"].split(".")[:2]


def test_the_socket_is_in_a_folder_of_its_own_that_nobody_else_enters(one_host) -> None:
    socket = Path(one_host.run().line_with("ready")["socket"])
    assert socket.parent.parent == Path("/tmp")
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    assert list(socket.parent.iterdir()) == []


def test_an_agent_that_gets_no_secrets_leaves_no_folder(one_host) -> None:
    talk = one_host.run()
    socket = Path(talk.line_with("ready")["socket"])
    talk.end_input()
    assert talk.line_with("error")["code"] == "no_input"
    talk.ended()
    assert not socket.parent.exists()
    assert list(one_host.folder.parent.iterdir()) == []


def test_secrets_of_another_form_are_refused_without_being_shown(one_host) -> None:
    talk = one_host.run()
    talk.line_with("ready")
    talk.send_line({"token": "prt_secret", "leese": "x"})
    error = talk.line_with("error")
    assert error["code"] == "bad_input"
    assert "prt_secret" not in str(error)


def test_the_token_is_in_no_file_no_environment_and_no_command_line(one_host, server, tmp_path) -> None:
    offer(server, tmp_path, "wait")
    with agent_of(one_host, server) as talk:
        wait_for(lambda: (one_host.job / "process.json").exists())
        seen = b"".join(shown_by(pid) for pid in [talk.process.pid, *one_host.left()])
        files = b"".join(path.read_bytes() for path in one_host.home.rglob("*") if path.is_file())
        (one_host.job / "go").touch()
        talk.line_with("end")
    assert server.token.encode() not in seen + files
    assert LEASE.encode() not in seen


def shown_by(pid: int) -> bytes:
    """What everybody, or its user, can read of a process; nothing of one that is gone."""
    try:
        return b"".join(Path(f"/proc/{pid}/{what}").read_bytes() for what in ("cmdline", "environ"))
    except (FileNotFoundError, ProcessLookupError):
        return b""


def test_the_end_of_the_connection_does_not_end_the_run(host, server, tmp_path) -> None:
    told = offer(server, tmp_path, "wait")
    with agent_of(host, server) as talk:
        wait_for(lambda: (host.job / "process.json").exists())
        talk.end_input()
        talk.stop_listening()
        wait_for(lambda: "its line to the server has ended" in (host.folder / "agent.log").read_text())
        (host.job / "go").touch()
        assert talk.ended() == 0
    assert told.result["exit"]["code"] == 0


def test_a_reader_of_stderr_that_is_gone_does_not_end_the_run(one_host, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    read, write = os.pipe()
    one_host.stderr = write
    talk = one_host.run()
    os.close(write)
    ready = talk.line_with("ready")
    os.close(read)
    talk.stop_listening()
    with Forwarded(ready["socket"], server.port):
        talk.send_line(secrets_for(ready["socket"], server.token))
        assert talk.ended() == 0
    assert told.result["exit"]["code"] == 0


def test_an_agent_that_was_killed_is_followed_by_one_that_takes_up_the_run(host, server, tmp_path) -> None:
    told = offer(server, tmp_path, "wait")
    with agent_of(host, server) as first:
        wait_for(lambda: len(told.events) >= 5)
        first.process.kill()
        first.ended()
    launcher = JobFolder(host.job).read_processes().launcher.pid
    with agent_of(host, server, lease="cd" * 16) as second:
        told.lease = "cd" * 16
        wait_for(lambda: told.alive[-1])
        (host.job / "go").touch()
        assert second.line_with("end")["how"] == "delivered"
    assert told.result["exit"]["code"] == 0
    assert server.requests.count("claim") == 1
    assert launcher > 0
    assert [event["value"] for event in told.events if event["event"] == "metric"] == list(range(10))


def test_the_socket_folder_of_an_agent_that_was_killed_goes_with_the_next_start(one_host) -> None:
    first = one_host.run()
    socket = Path(first.line_with("ready")["socket"])
    first.send_line(secrets_for(str(socket), "prt_x"))
    first.line_with("agent")
    first.process.kill()
    first.ended()
    assert socket.parent.exists()
    one_host.run().line_with("ready")
    assert not socket.parent.exists()


def test_a_second_agent_for_the_same_run_is_refused_while_one_lives(one_host) -> None:
    one_host.run().line_with("ready")
    error = one_host.run().line_with("error")
    assert error["code"] == "agent_lives"


def test_runs_do_not_get_into_each_others_way(one_host, server, tmp_path) -> None:
    offer(server, tmp_path, run_id="run-1")
    one_host.run(run_id="run-2").line_with("ready")
    with agent_of(one_host, server) as talk:
        assert talk.line_with("end")["how"] == "delivered"


def test_a_cancel_reaches_the_worker_and_leaves_no_process(host, server, tmp_path) -> None:
    told = offer(server, tmp_path, "wait")
    with agent_of(host, server) as talk:
        wait_for(lambda: told.events)
        told.cancel_grace_s = 1.0
        talk.line_with("end")
        talk.ended()
    assert told.result["exit"]["reason"] == "cancelled"
    assert host.left() == []


def test_an_agent_whose_run_is_not_given_out_ends_and_says_why(one_host, server) -> None:
    # More than one: a refusal before the whole request was read may be lost on the way.
    server.order("claim", *[(409, "stale_attempt")] * 50)
    with agent_of(one_host, server) as talk:
        end = talk.line_with("end")
        assert (end["how"], talk.ended()) == ("not_claimed", 1)
    assert "stale_attempt" in end["why"]


def test_an_agent_that_never_reaches_the_server_gives_up(one_host) -> None:
    talk = one_host.run()
    socket = talk.line_with("ready")["socket"]
    talk.send_line(secrets_for(socket, "prt_x", patience_s=0.5))
    end = talk.line_with("end")
    assert end["how"] == "not_claimed"
    assert f"unix:{socket} cannot be reached" in end["why"]


def test_a_server_that_gives_out_another_job_gets_no_work_from_this_host(one_host, server, tmp_path) -> None:
    offer(server, tmp_path, run_id="run-7")
    with agent_of(one_host, server, patience_s=1.0) as talk:
        assert "another job: run-7.1" in talk.line_with("end")["why"]


def test_a_run_goes_on_over_a_socket_that_was_forwarded_anew(one_host, server, tmp_path) -> None:
    told = offer(server, tmp_path, "wait")
    talk = one_host.run()
    ready = talk.line_with("ready")
    with Forwarded(ready["socket"], server.port):
        talk.send_line(secrets_for(ready["socket"], server.token))
        wait_for(lambda: len(told.events) >= 5)
    taken = one_host.request("take_up", free_socket=True)["take_up"]
    assert taken["agent"]["alive"]
    assert taken["job"] == "alive"
    with Forwarded(taken["agent"]["socket"], server.port):
        (one_host.job / "go").touch()
        assert talk.line_with("end")["how"] == "delivered"


def test_an_agent_that_waits_for_secrets_is_ended_by_whoever_was_to_send_them_alone(one_host) -> None:
    waiting = one_host.run()
    socket = waiting.line_with("ready")["socket"]
    for other in ("", "/tmp/potato-another1/s"):
        found = one_host.request("take_up", free_socket=True, end_waiting=other)["take_up"]
        assert (found["agent"]["alive"], found["agent"]["at_work"]) == (True, False)
    assert not one_host.request("take_up", end_waiting=socket)["take_up"]["agent"]["alive"]
    assert waiting.ended() == -signal.SIGKILL
    one_host.run().line_with("ready")


def test_a_signal_to_hang_up_does_not_end_an_agent(one_host, server, tmp_path) -> None:
    told = offer(server, tmp_path, "wait")
    with agent_of(one_host, server) as talk:
        wait_for(lambda: told.events)
        talk.process.send_signal(signal.SIGHUP)
        (one_host.job / "go").touch()
        assert talk.line_with("end")["how"] == "delivered"


def test_taking_up_a_run_that_was_never_there_finds_nothing(one_host) -> None:
    taken = one_host.request("take_up")["take_up"]
    assert taken == {"agent": None, "job": "", "has_artifacts": False}


def test_a_run_without_a_proper_name_is_refused(one_host) -> None:
    assert one_host.request("take_up", run_id="../../etc")["error"]["code"] == "bad_input"


def wait_for(true, within_s: float = 30.0) -> None:
    deadline = time.monotonic() + within_s
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_no_agent_is_started_for_somebody_who_has_hung_up(one_host) -> None:
    one_host.request("clear_up")  # brings the code
    talk = one_host.ask("run")
    talk.end_input()
    assert talk.ended() == 1
    assert [list(talk.line()) for _ in range(2)] == [["facts"], ["code"]]
    assert talk.read(1) == b""
    assert not one_host.folder.exists()
