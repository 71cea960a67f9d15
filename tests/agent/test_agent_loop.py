"""Asking for jobs: when there are none, when the server is away, and when it says no."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest
from agent_at_work import AgentAtWork, offer
from protocol_server import LOST, RESET, ProtocolServer

from potato_ray.agent.apart import Interrupted, apart
from potato_ray.agent.errors import AgentMisconfigured, OtherBackend, ProtocolMismatch
from potato_ray.agent.held_job import HeldJob
from potato_ray.agent.job_document import JobDocument
from potato_ray.agent.workdir import Workdir

Work = Callable[..., AgentAtWork]


def test_an_agent_that_waits_begins_a_job_within_a_second_of_its_offer(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    agent = work(timing={"long_poll_s": 30.0})
    server.wait_for(lambda: server.claims)
    told = offer(server, tmp_path)
    offered_at = time.monotonic()
    server.wait_for(lambda: told.beats)
    assert told.beats[0] - offered_at < 1.0
    agent.join()


def test_an_agent_that_is_told_to_stop_ends_within_a_long_poll(server: ProtocolServer, work: Work) -> None:
    agent = work(once=False, timing={"long_poll_s": 30.0})
    server.wait_for(lambda: server.claims)
    agent.stop.ask()
    agent.join(within_s=1.5)


def test_an_idle_agent_says_no_more_than_that_it_asks_and_waits(server: ProtocolServer, work: Work) -> None:
    agent = work(once=False, timing={"long_poll_s": 0.0})
    server.wait_for(lambda: len(server.claims) > 3)
    agent.stop.ask()
    said = [line[20:] for line in agent.join().splitlines()]
    assert said == [f"asking {server.url} for a job", "waiting for a job"]


def test_that_it_waits_is_said_soon_and_only_of_a_server_that_answers(
    server: ProtocolServer, work: Work
) -> None:
    agent = work(once=False, timing={"long_poll_s": 30.0})
    agent.wait_for(lambda: "waiting for a job" in agent.said.getvalue(), within_s=5.0)
    server.wait_for(lambda: len(server.claims) > 1)
    assert [claim["wait_s"] for claim in server.claims] == [0.05, 30.0]


def test_an_agent_without_an_answer_does_not_say_that_it_waits(server: ProtocolServer, work: Work) -> None:
    server.order("claim", *[503] * 2, *[(401, "agent_token_refused"), 503] * 3)
    agent = work(once=False)
    agent.wait_for(lambda: not server.ordered("claim"))
    before = agent.said.getvalue()
    assert "waiting for a job" not in before
    assert before.count("The server refused the token") == 1
    assert before.count("answered 503") == 1
    agent.wait_for(lambda: "the server answers again; waiting for a job" in agent.said.getvalue())


def test_a_server_without_long_polls_is_not_asked_all_the_time(server: ProtocolServer, work: Work) -> None:
    agent = work(once=False, timing={"long_poll_s": 0.0, "least_poll_s": 0.2})
    time.sleep(0.5)
    agent.stop.ask()
    agent.join()
    assert len(server.claims) <= 4


def test_claims_without_an_answer_are_made_again_with_the_same_lease(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("claim", 503, RESET, LOST)
    work().join()
    assert told.result is not None
    assert len({claim["lease"] for claim in server.claims}) == 1


def test_each_job_has_a_lease_of_its_own(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    first, second = offer(server, tmp_path), offer(server, tmp_path, run_id="run-2")
    agent = work(once=False)
    server.wait_for(lambda: first.result and second.result)
    agent.stop.ask()
    agent.join()
    assert first.lease != second.lease
    assert len(first.lease) == 32


def test_a_server_that_is_away_is_said_once_and_found_when_it_is_back(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    server.leave()
    agent = work()
    time.sleep(0.3)
    server.come_back()
    told = offer(server, tmp_path)
    said = agent.join()
    assert told.result is not None
    assert said.count("refused") <= 1
    assert said.count("the server answers again") == 1


def test_a_wrong_token_says_to_register_again_and_is_tried_on(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    right, server.token = server.token, "prt_another"
    agent = work(once=False)
    agent._connection._token = right
    agent.wait_for(lambda: "egister" in agent.said.getvalue())
    server.token = right
    told = offer(server, tmp_path)
    server.wait_for(lambda: told.result)
    agent.stop.ask()
    said = agent.join()
    assert said.count("egister") == 1
    assert right not in said


def test_another_protocol_ends_the_agent_and_names_both_versions(server: ProtocolServer, work: Work) -> None:
    server.version = "2"
    agent = work()
    with pytest.raises(ProtocolMismatch, match=r"version 1 .* version 2"):
        agent.join()


def test_a_claim_names_the_backend_and_one_of_another_ends_the_agent(
    server: ProtocolServer, work: Work
) -> None:
    server.order("claim", 503, (409, "other_backend", {"error": "It is that of lab."}))
    with pytest.raises(OtherBackend, match=r"It is that of lab\. Look\."):
        work(once=False).join()


def test_a_job_of_another_backend_is_left_to_the_agent_that_is_started_for_it(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, backend="lab")
    agent = work(once=False)
    with pytest.raises(OtherBackend, match=r"backend lab.* started for far.*--backend lab"):
        agent.join()
    assert {claim["backend"] for claim in server.claims} == {"far"}
    assert list(agent.workdir.jobs.iterdir()) == []
    work(backend="lab").join()
    assert told.result is not None


def test_an_agent_that_is_told_to_stop_leaves_the_jobs_that_it_has_not_taken_up(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    first, second = offer(server, tmp_path, "wait"), offer(server, tmp_path, run_id="run-2")
    (tmp_path / "work" / "jobs").mkdir(parents=True)
    for told, lease in ((first, "ab" * 16), (second, "cd" * 16)):
        told.lease = lease
        job = JobDocument.from_json(told.job)
        HeldJob.create(tmp_path / "work" / "jobs", job, lease, server.url, "far")
    agent = work(once=False)
    server.wait_for(lambda: len(first.events) >= 5)
    agent.stop.ask()
    (agent.folder().path / "go").touch()
    said = agent.join()
    assert first.result is not None
    assert second.beats == []
    assert "job run-2 of the agent before this one is left to the next one" in said
    work()
    server.wait_for(lambda: second.result)


@pytest.mark.parametrize(
    "change",
    [
        {"run_id": "../../outside"},
        {"run_id": "/etc"},
        {"attempt": "1"},
        {"attempt": -1},
        {"spec": None},
        {"bundle": {"sha256": "../../x", "bytes": 1}},
        {"code": {"sha256": "0" * 64, "bytes": True}},
        {"code": []},
    ],
)
def test_an_answer_that_is_no_job_is_said_and_nothing_is_made_of_it(
    server: ProtocolServer, work: Work, tmp_path: Path, change: dict[str, object]
) -> None:
    told = offer(server, tmp_path)
    told.job.update(change)
    agent = work()
    agent.wait_for(lambda: "the job holds" in agent.said.getvalue() or "no usable" in agent.said.getvalue())
    agent.stop.ask()
    agent.join()
    assert list(agent.workdir.jobs.iterdir()) == []
    assert not (tmp_path / "outside").exists()


def test_a_lease_that_the_server_no_longer_takes_is_replaced(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("claim", (409, "stale_attempt"))
    agent = work()
    agent.join()
    assert told.result is not None


def test_a_job_that_there_is_no_room_for_fails_in_words(
    server: ProtocolServer, work: Work, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("potato_ray.agent.held_job.HeldJob.create", full)
    told = offer(server, tmp_path)
    work().join()
    assert told.result is not None
    assert "No space left" in told.result["failure"]["message"]


def test_two_agents_never_work_in_one_folder(tmp_path: Path) -> None:
    first = Workdir(tmp_path / "work")
    with pytest.raises(AgentMisconfigured, match=r"process \d+") as refused:
        Workdir(tmp_path / "work")
    assert refused.value.code == "workdir_in_use"
    first.release()
    Workdir(tmp_path / "work").release()


def test_the_workdir_of_an_agent_that_was_killed_is_had_once_its_last_child_has_let_go(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = Workdir(tmp_path / "work")
    looks: list[float] = []

    def sleep(wait_s: float) -> None:
        looks.append(wait_s)
        if len(looks) == 3:
            first.release()

    time = SimpleNamespace(monotonic=lambda: 0.0, sleep=sleep)
    monkeypatch.setattr("potato_ray.agent.workdir.time", time)
    Workdir(tmp_path / "work").release()
    assert len(looks) == 3


def test_the_workdir_is_for_its_owner_alone(tmp_path: Path) -> None:
    workdir = Workdir(tmp_path / "work")
    lease = workdir.lease_for("http://here", "far")
    assert workdir.lease_for("http://here", "far") == lease
    assert (workdir.path / "claim.json").stat().st_mode & 0o777 == 0o600
    assert workdir.path.stat().st_mode & 0o777 == 0o700
    assert workdir.lease_for("http://there", "far") != lease
    workdir.release()


def test_work_that_is_let_go_of_does_not_hold_anybody_up() -> None:
    go_on = threading.Event()
    with pytest.raises(Interrupted):
        apart(lambda: go_on.wait(10.0), lambda: True, 0.01, lambda: None)
    go_on.set()


def test_work_that_ends_when_it_is_let_go_of_has_its_result_counted() -> None:
    go_on = threading.Event()
    assert apart(lambda: go_on.wait(10.0), lambda: True, 0.01, go_on.set) is True


def test_what_work_raises_is_raised() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        apart(fail, lambda: False, 0.01, lambda: None)
