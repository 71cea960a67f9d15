"""One job from the server's answer to its end there, over real loopback HTTP, with a real worker."""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_at_work import AgentAtWork, offer
from protocol_server import HANG, LOST, RESET, ProtocolServer, Told

from potato_ray.agent.errors import ProtocolMismatch
from potato_ray.agent.held_job import HeldJob
from potato_ray.agent.job_document import JobDocument
from potato_ray.agent.job_run import JobRun
from potato_ray.job.processes import is_alive, marked

Work = Callable[..., AgentAtWork]


def test_a_job_comes_home_with_events_predictions_and_result(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    agent = work()
    agent.join()
    assert told.result is not None
    assert told.result["failure"] is None
    assert told.result["exit"]["code"] == 0
    assert told.result["next_seq"] == len(told.events)
    assert [event["event"] for event in told.events].count("metric") == 10
    assert told.predictions is not None
    assert len(told.predictions.splitlines()) == 10


def test_of_a_job_that_is_done_the_model_files_stay(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    agent = work()
    agent.join()
    folder = agent.folder()
    assert {path.name for path in folder.path.iterdir()} == {"artifacts", "done.json"}
    assert told.result is not None
    assert told.result["artifact_uri"] == f"{agent.settings.host}:{folder.artifacts}"
    assert (folder.artifacts / "model.json").exists()


def test_keep_leaves_the_bundle_and_the_logs_and_no_lease(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    agent = work(keep=True)
    agent.join()
    left = {path.name for path in agent.folder().path.iterdir()}
    assert {"bundle", "stderr.log", "artifacts", "events.jsonl"} <= left
    assert not left & {"held.json", "bundle.tar.gz"}
    texts = [path.read_text("utf-8", "replace") for path in agent.workdir.path.rglob("*") if path.is_file()]
    assert not any(told.lease in text for text in texts)


def test_a_trainer_that_fails_is_told_with_its_events(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "fail")
    agent = work()
    agent.join()
    assert told.result is not None
    assert told.result["exit"]["code"] == 1
    error = told.events[-1]
    assert error["event"] == "error"
    assert f"the job has ended: error {error['code']}: {error['message']}" in agent.said.getvalue()
    assert told.predictions is None
    assert not agent.folder().path.exists()


def test_steps_and_the_agents_own_lines_go_home(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    told = offer(server, tmp_path)
    work().join()
    assert told.result is not None
    assert "sending the predictions" in told.result["agent_log"]
    assert "the job has ended: success" in told.result["agent_log"]
    assert told.steps


def test_a_cancel_reaches_the_worker_and_its_end_the_server(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    told.cancel_grace_s = 1.5
    agent.join()
    assert told.result is not None
    assert told.result["failure"] is None
    assert told.result["exit"]["reason"] == "cancelled"
    assert "the job has ended: cancelled" in agent.said.getvalue()
    assert not marked([f"POTATO_RAY_JOB={told.job['run_id']}:1"])


def test_a_cancel_during_the_download_ends_it_at_once(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("bundle", HANG)
    agent = work()
    server.wait_for(lambda: "bundle" in server.requests and told.beats)
    told.cancel_grace_s = 2.0
    agent.join(within_s=3.0)
    assert told.result is not None
    assert told.result["exit"]["reason"] == "cancelled"
    assert told.result["failure"] is None


def test_heartbeats_go_on_while_the_bundle_hangs(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    told = offer(server, tmp_path)
    server.order("bundle", HANG)
    agent = work()
    server.wait_for(lambda: len(told.beats) >= 5)
    assert "bundle" in server.requests
    assert not any(told.alive)
    told.stale = True
    agent.stop.ask()
    agent.join()


def test_heartbeats_say_when_a_worker_lives(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    told = offer(server, tmp_path, "wait")
    agent = work()
    server.wait_for(lambda: told.alive[-3:] == [True] * 3)
    (agent.folder().path / "go").touch()
    agent.join()
    assert told.alive[-1] is False


def test_a_run_that_the_server_has_let_go_of_is_stopped_and_removed(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    processes = agent.folder().read_processes()
    assert processes is not None
    told.stale = True
    agent.wait_for(lambda: not agent.folder().path.exists())
    assert not is_alive(processes.worker)
    agent.wait_for(lambda: not is_alive(processes.launcher))  # whose last act was to say so
    assert told.result is None


def cancelled_with_a_checkpoint(server: ProtocolServer, work: Work, told: Told) -> Path:
    """The checkpoint of a run whose worker has just been cancelled."""
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    checkpoint = agent.folder().artifacts / "best.ckpt"
    checkpoint.write_text("weights")
    told.cancel_grace_s = 1.5
    agent.wait_for(lambda: "result" in server.requests)
    agent.stop.times = 3
    agent.join()
    return checkpoint


def test_a_cancelled_run_whose_end_comes_too_late_keeps_its_model_files(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    server.order("result", (409, "stale_attempt"))
    checkpoint = cancelled_with_a_checkpoint(server, work, told)
    assert told.result is None
    assert checkpoint.read_text() == "weights"
    assert (checkpoint.parents[1] / "done.json").exists()


def test_a_cancelled_run_keeps_its_model_files_also_where_the_next_agent_tells_its_end(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    server.order("result", *[HANG] * 9)
    checkpoint = cancelled_with_a_checkpoint(server, work, told)
    assert (checkpoint.parents[1] / "held.json").exists()
    told.stale = True
    agent = work()
    agent.wait_for((checkpoint.parents[1] / "done.json").exists)
    assert checkpoint.read_text() == "weights"


def test_after_a_run_that_was_let_go_of_the_next_one_is_claimed(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    first = offer(server, tmp_path, "wait")
    agent = work(once=False)
    server.wait_for(lambda: len(first.events) >= 5)
    first.stale = True
    second = offer(server, tmp_path, run_id="run-2")
    server.wait_for(lambda: second.result)
    agent.stop.ask()
    agent.join()
    assert second.result is not None
    assert first.lease != second.lease


def test_a_launcher_that_is_killed_is_told_as_no_end(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    processes = agent.folder().read_processes()
    assert processes is not None
    os.kill(processes.launcher.pid, signal.SIGKILL)
    agent.join()
    assert told.result is not None
    assert told.result["exit"] is None
    assert told.result["failure"] is None
    assert "error killed: The launcher ended without telling how" in agent.said.getvalue()
    assert not is_alive(processes.worker)


def test_a_worker_that_ignores_sigterm_is_killed_after_the_grace(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "stubborn")
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    told.cancel_grace_s = 0.3
    agent.join()
    assert told.result is not None
    assert told.result["exit"]["signal"] == signal.SIGKILL


def test_a_bundle_that_never_comes_whole_fails_the_run_in_words(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    told.bundle = told.bundle[:-40] + bytes(40)
    agent = work()
    agent.join()
    assert told.result is not None
    assert told.result["failure"]["code"] == "backend_failed"
    assert told.result["failure"]["next_step"]
    assert server.requests.count("bundle") <= 5
    assert not agent.folder().path.exists()


def test_a_disk_that_is_full_fails_the_run_in_words(
    server: ProtocolServer, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("potato_ray.agent.server_contact.unpack", full)
    monkeypatch.setattr("potato_ray.agent.held_job.write_json", full)  # nor can it be noted
    monkeypatch.setattr("potato_ray.agent.held_job.HeldJob.create", unwritten)
    told = offer(server, tmp_path)
    work().join()
    assert told.result is not None
    assert "disk is full" in told.result["failure"]["message"]


def unwritten(jobs: Path, job: JobDocument, lease: str, server: str, backend: str) -> HeldJob:
    """A job whose folder could just be made."""
    (jobs / job.name / "artifacts").mkdir(parents=True)
    return HeldJob(jobs / job.name, job, lease, server, backend)


def test_trouble_that_nobody_thought_of_ends_the_worker_and_is_told(
    server: ProtocolServer, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: JobRun) -> None:
        monkeypatch.undo()
        raise RuntimeError("nobody thought of this")

    monkeypatch.setattr(JobRun, "_watch", broken)
    told = offer(server, tmp_path, "wait")
    agent = work()
    agent.join()
    assert told.result is not None
    assert "RuntimeError: nobody" in told.result["failure"]["message"]
    assert told.result["exit"]["reason"] == "cancelled"


def test_a_server_of_another_version_leaves_the_end_to_the_next_agent(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    server.version = "2"
    (agent.folder().path / "go").touch()
    with pytest.raises(ProtocolMismatch):
        agent.join()
    assert (agent.folder().path / "held.json").exists()
    server.version = "1"
    work().join()
    assert told.result is not None
    assert told.result["exit"]["code"] == 0


def test_an_interpreter_that_is_gone_fails_the_run_in_words(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    work(python="/nowhere/python").join()
    assert told.result is not None
    assert told.result["failure"]["code"] == "backend_failed"
    assert "/nowhere/python" in told.result["failure"]["message"]


def test_a_spec_that_the_code_cannot_read_is_a_bad_spec(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    told.job["spec"]["v"] = 99
    work().join()
    assert told.result is not None
    assert told.result["failure"]["code"] == "bad_spec"
    assert "version 99" in told.result["failure"]["message"]


def test_predictions_that_are_too_large_are_not_even_sent(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, max_predictions_mb=0.0001)
    work().join()
    assert told.result is not None
    assert told.result["failure"]["code"] == "predictions_too_large"
    assert "predictions" not in server.requests


def test_predictions_that_the_server_refuses_as_too_large_fail_the_run(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("predictions", (413, "predictions_too_large"))
    work().join()
    assert told.result is not None
    assert told.result["failure"]["code"] == "predictions_too_large"
    assert told.result["exit"]["code"] == 0


def test_predictions_that_a_proxy_refuses_fail_the_run_with_what_to_do_about_it(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("predictions", (413, "body_too_large"))
    work().join()
    assert told.result is not None
    failure = told.result["failure"]
    assert failure["code"] == "backend_failed"
    assert "such as a proxy" in failure["message"]
    assert "client_max_body_size" in failure["next_step"]


def test_a_result_that_is_too_large_is_no_matter_of_the_predictions(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "fail")
    server.order("result", (413, "body_too_large"))
    work().join()
    assert told.result is not None
    assert told.result["failure"] is None


def test_predictions_that_the_server_misses_are_sent_again(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("result", (409, "predictions_missing"))
    work().join()
    assert server.requests.count("predictions") == 2
    assert told.result is not None
    assert told.result["failure"] is None


def test_a_result_that_is_refused_for_missing_events_follows_them(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("result", (409, "events_missing", {"next_seq": 3}))
    work().join()
    assert told.result is not None
    assert told.result["next_seq"] == len(told.events)


def test_trouble_on_the_way_home_is_tried_through(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    told = offer(server, tmp_path)
    server.order("predictions", 503, RESET, LOST)
    server.order("result", 500, RESET, LOST)
    work().join()
    assert told.predictions is not None
    assert len(told.results) == 2  # the answer to the first one was lost
    assert told.results[0] == {**told.results[1], "agent_log": told.results[0]["agent_log"]}


def test_a_success_whose_run_is_over_when_it_is_told_again_keeps_its_model(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("result", LOST, (409, "stale_attempt"))
    agent = work()
    agent.join()
    assert len(told.results) == 1
    assert (agent.folder().artifacts / "model.json").exists()


def test_an_end_that_the_server_took_without_an_answer_is_told_again_where_the_run_is_over_by_then(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("result", LOST)
    agent = work(timing={"first_retry_s": 5.0, "longest_retry_s": 5.0})
    server.wait_for(lambda: told.results)
    server.order("progress", (409, "stale_attempt"))
    agent.join()
    assert len(told.results) == 2
    assert "the end of the job has reached the server" in agent.said.getvalue()


def test_a_server_that_takes_no_more_events_ends_the_run_in_words(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    told.most_events = 3
    work().join()
    assert told.result is not None
    assert "no more events" in told.result["failure"]["message"]
    assert told.result["next_seq"] == len(told.events)


def test_predictions_that_are_always_refused_fail_the_run_and_not_the_agent(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, lost_after_s=0.5, limits={"lost_after_s": 30.0})
    server.order("predictions", *[400] * 50)
    work().join()
    assert told.result is not None
    assert told.result["failure"]["code"] == "backend_failed"


def test_a_result_that_is_always_refused_is_given_up_and_the_model_stays(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    offer(server, tmp_path, lost_after_s=0.3)
    server.order("result", *[500] * 100)
    agent = work(once=False)
    agent.wait_for(lambda: "it is given up" in agent.said.getvalue())
    agent.wait_for(lambda: (agent.folder().path / "done.json").exists())
    assert (agent.folder().artifacts / "model.json").exists()


def test_a_success_whose_token_is_refused_waits_for_a_new_one_and_says_so(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, lost_after_s=0.3, limits={"lost_after_s": 30.0})
    server.order("predictions", *[(401, "agent_token_refused")] * 12)
    said = work().join()
    assert told.result is not None
    assert told.result["failure"] is None
    assert said.count("The server refused the token") == 1
    assert "is offered for 5 s" in said
    assert "into the file of --token-file" in said


def test_signals_are_answered_while_the_end_waits_for_the_server(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    offer(server, tmp_path)
    server.order("result", *[503] * 999)
    agent = work()
    agent.wait_for(lambda: "not with the server yet" in agent.said.getvalue())
    agent.stop.ask()
    agent.wait_for(lambda: "told to stop: the end of the job has to reach" in agent.said.getvalue())
    assert "is offered for up to 30 s" in agent.said.getvalue()
    agent.stop.ask()
    assert "told to stop again: after a last try" in agent.join()


def test_an_end_that_meets_a_404_of_anything_but_the_run_is_told_again(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("result", (404, "not_found"))
    work().join()
    assert told.result is not None


def test_the_worker_gets_neither_token_nor_lease(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    told = offer(server, tmp_path, "wait")
    os.environ["POTATO_TRAINING_TOKEN"] = server.token
    try:
        agent = work()
        server.wait_for(lambda: len(told.events) >= 5)
        processes = agent.folder().read_processes()
        assert processes is not None
        for pid in (processes.launcher.pid, processes.worker.pid):
            for name in ("environ", "cmdline"):
                text = Path(f"/proc/{pid}/{name}").read_text("utf-8", "replace")
                assert server.token not in text
                assert told.lease not in text
        assert (agent.folder().path / "held.json").stat().st_mode & 0o777 == 0o600
    finally:
        del os.environ["POTATO_TRAINING_TOKEN"]
    (agent.folder().path / "go").touch()
    agent.join()
    for path in (tmp_path / "work").rglob("*"):
        assert not path.is_file() or server.token.encode() not in path.read_bytes()


def test_the_worker_runs_the_code_that_came_with_the_job(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    processes = agent.folder().read_processes()
    assert processes is not None
    command = Path(f"/proc/{processes.worker.pid}/cmdline").read_bytes().decode().split("\0")
    assert command[0] == sys.executable
    assert command[1].startswith(str(agent.workdir.code / told.job["code"]["sha256"]))
    (agent.folder().path / "go").touch()
    agent.join()


def test_code_that_is_there_is_not_fetched_again(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    first, second = offer(server, tmp_path), offer(server, tmp_path, run_id="run-2")
    agent = work(once=False)
    server.wait_for(lambda: first.result and second.result)
    agent.stop.ask()
    agent.join()
    assert server.requests.count("code") == 1
