"""What the server hears of a job while it runs, also through outages, and when an outage is too long."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_at_work import QUICK, AgentAtWork, offer
from protocol_server import HANG, LOST, RESET, ProtocolServer

from potato_ray.agent.batches import Batches
from potato_ray.agent.errors import Refused, ServerUnreachable, WrongToken
from potato_ray.agent.held_job import HeldJob
from potato_ray.agent.job_document import JobDocument
from potato_ray.agent.relay import Relay
from potato_ray.agent.voice import Voice
from potato_ray.job.event_log import EventLog
from potato_ray.job.folder import JobFolder

Work = Callable[..., AgentAtWork]


def write_events(folder: JobFolder, n: int, first: int = 0) -> None:
    log = EventLog(folder.events)
    for number in range(first, first + n):
        log.write("metric", name="train_step", value=float(number), step=number)


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["step"] for event in events]


class TestBatches:
    def test_the_same_batch_comes_until_the_server_has_it(self, tmp_path: Path) -> None:
        folder = JobFolder(tmp_path)
        write_events(folder, 5)
        batches = Batches(folder, most_events=3)
        assert numbers(batches.next().events) == [0, 1, 2]
        assert numbers(batches.next().events) == [0, 1, 2]
        batches.go_to(3)
        assert batches.next().first_seq == 3
        assert numbers(batches.next().events) == [3, 4]
        batches.go_to(5)
        assert batches.next().events == []

    def test_a_server_that_lacks_earlier_events_gets_them(self, tmp_path: Path) -> None:
        folder = JobFolder(tmp_path)
        write_events(folder, 5)
        batches = Batches(folder)
        batches.go_to(5)
        batches.go_to(2)
        assert numbers(batches.next().events) == [2, 3, 4]

    def test_a_server_that_has_more_than_it_was_sent_goes_on_from_there(self, tmp_path: Path) -> None:
        folder = JobFolder(tmp_path)
        write_events(folder, 5)
        batches = Batches(folder, most_events=2)
        batches.next()
        batches.go_to(4)
        assert numbers(batches.next().events) == [4]

    def test_a_batch_stays_below_its_bytes_and_is_never_empty(self, tmp_path: Path) -> None:
        folder = JobFolder(tmp_path)
        write_events(folder, 10)
        batches = Batches(folder, most_bytes=250)
        assert numbers(batches.next().events) == [0, 1]

    def test_an_event_that_no_request_can_hold_becomes_a_warning_in_its_place(self, tmp_path: Path) -> None:
        folder = JobFolder(tmp_path)
        EventLog(folder.events).write("log", level="info", message="x" * 5000)
        write_events(folder, 1)
        first, second = Batches(folder, most_bytes=1000).next().events
        assert "too large to send" in first["message"]
        assert second["step"] == 0

    def test_a_batch_that_cannot_be_read_is_halved_and_its_one_bad_event_replaced(
        self, tmp_path: Path
    ) -> None:
        folder = JobFolder(tmp_path)
        write_events(folder, 4)
        batches = Batches(folder)
        batches.next()
        assert batches.make_smaller("no")
        assert numbers(batches.next().events) == [0, 1]
        assert batches.make_smaller("no")
        assert batches.make_smaller("no")
        assert "which the server refused: no" in batches.next().events[0]["message"]
        assert not batches.make_smaller("no")
        batches.go_to(1)
        assert numbers(batches.next().events) == [1, 2, 3]

    def test_a_batch_has_a_usual_size_that_one_large_event_may_exceed(self, tmp_path: Path) -> None:
        folder = JobFolder(tmp_path)
        write_events(folder, 3)
        EventLog(folder.events).write("log", level="info", message="x" * 5000)
        write_events(folder, 1, first=3)
        batches = Batches(folder, usual_bytes=2000)
        sizes = []
        while batches.next().events:
            sizes.append(len(batches.next().events))
            batches.go_to(batches.next().first_seq + sizes[-1])
        assert sizes == [3, 1, 1]

    def test_a_batch_that_does_not_get_through_is_halved_down_to_a_bound_and_grows_again(
        self, tmp_path: Path
    ) -> None:
        folder = JobFolder(tmp_path)
        write_events(folder, 900)
        batches = Batches(folder)
        whole = len(batches.next().events)
        halves = []
        for _ in range(8):
            batches.make_lighter()
            halves.append(len(batches.next().events))
        assert whole == 900
        assert whole / 2.2 < halves[0] < whole / 1.8
        assert halves[-1] == halves[-2] > 10
        batches.make_heavier()
        assert 1.8 * halves[-1] < len(batches.next().events) < 2.2 * halves[-1]
        for _ in range(8):
            batches.make_heavier()
        assert len(batches.next().events) == whole

    def test_an_outage_does_not_make_batches_smaller_than_what_failed(self, tmp_path: Path) -> None:
        folder = JobFolder(tmp_path)
        write_events(folder, 2)
        batches = Batches(folder)
        batches.next()
        batches.make_lighter()
        write_events(folder, 800, first=2)
        assert len(batches.next().events) == 802


class Peer:
    """A contact without a server: what `answers` holds first is answered or raised, then all is well."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.bodies: list[dict[str, Any]] = []
        self.events: list[dict[str, Any]] = []

    def progress(self, held: HeldJob, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(body)
        if self.answers:
            answer = self.answers.pop(0)
            if isinstance(answer, Exception):
                raise answer
            return dict(answer)
        self.events += body["events"][len(self.events) - body["first_seq"] :]
        return {"cancel": False, "grace_seconds": 20.0, "next_seq": len(self.events)}


@pytest.fixture
def job(tmp_path: Path) -> HeldJob:
    tmp_path.joinpath("jobs").mkdir()
    parcel = {"sha256": "0" * 64, "bytes": 1}
    body = {"run_id": "run-1", "attempt": 1, "spec": {}, "bundle": parcel, "code": parcel}
    document = JobDocument.from_json({**body, "progress_every_s": 0.05})
    return HeldJob.create(tmp_path / "jobs", document, "ab" * 16, "http://here", "far")


@pytest.fixture
def relay_to(job: HeldJob) -> Iterator[Callable[[Peer], Relay]]:
    relays: list[Relay] = []

    def start(peer: Any) -> Relay:
        relays.append(Relay(job, peer, QUICK, Voice(open("/dev/null", "w"))))  # noqa: SIM115
        return relays[-1].__enter__()

    yield start
    for relay in relays:
        relay.__exit__(None, None, None)
        relay._voice._stream.close()


def until(true: Callable[[], Any]) -> None:
    deadline = time.monotonic() + 5.0
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_events_come_in_order_and_once_through_every_trouble(
    job: HeldJob, relay_to: Callable[[Any], Relay]
) -> None:
    trouble = [ServerUnreachable("away"), Refused(401, "who?"), Refused(409, "gap", code="events_missing")]
    peer = Peer(*trouble, {"next_seq": "x"}, {})
    write_events(job.folder, 5)
    relay = relay_to(peer)
    until(lambda: relay.confirmed == 5)
    write_events(job.folder, 5, first=5)
    until(lambda: relay.confirmed == 10)
    assert numbers(peer.events) == list(range(10))


def test_a_refused_batch_does_not_keep_the_rest_back(job: HeldJob, relay_to: Callable[[Any], Relay]) -> None:
    peer = Peer(*[Refused(400, "malformed", code="malformed_request")] * 2)
    write_events(job.folder, 2)
    relay = relay_to(peer)
    until(lambda: relay.confirmed == 2)
    assert [event["event"] for event in peer.events] == ["log", "metric"]


def test_events_arrive_over_a_line_that_carries_little_at_a_time(
    job: HeldJob, relay_to: Callable[[Any], Relay]
) -> None:
    class Narrow(Peer):
        def progress(self, held: HeldJob, body: dict[str, Any]) -> dict[str, Any]:
            if len(json.dumps(body)) > 20_000:
                raise ServerUnreachable("too much at a time", code="server_too_slow")
            return super().progress(held, body)

    write_events(job.folder, 900)
    peer = Narrow()
    relay = relay_to(peer)
    until(lambda: relay.confirmed == 900)
    assert numbers(peer.events) == list(range(900))


@pytest.mark.parametrize(("takes_s", "grows"), [(0.5, True), (10.0, False)])
def test_batches_grow_again_only_where_they_get_through_quickly(
    job: HeldJob, takes_s: float, grows: bool
) -> None:
    now = [0.0]

    class Slow(Peer):
        def progress(self, held: HeldJob, body: dict[str, Any]) -> dict[str, Any]:
            now[0] += takes_s
            return super().progress(held, body)

    peer: Any = Slow(ServerUnreachable("too much", code="server_too_slow"))
    write_events(job.folder, 2000)
    with open("/dev/null", "w") as nowhere:
        relay = Relay(job, peer, QUICK, Voice(nowhere), clock=lambda: now[0])
        for _ in range(3):
            relay._tell(relay._next_batch())
    whole, half, last = (len(body["events"]) for body in peer.bodies)
    assert half < 0.6 * whole
    assert (last > half) is grows


def test_only_the_last_step_waits_and_every_log_line(job: HeldJob, relay_to: Callable[[Any], Relay]) -> None:
    peer = Peer(*[ServerUnreachable("away")] * 4)
    relay = relay_to(peer)
    relay.step("one")
    relay.log("a line")
    relay.step("two")
    until(lambda: not peer.answers and peer.bodies[-1]["notes"] == [])
    told = [note for body in peer.bodies[4:] for note in body["notes"]]
    assert told == [
        {"kind": "log", "level": "info", "message": "a line"},
        {"kind": "step", "step": "two"},
    ]


@pytest.mark.parametrize(
    ("refused", "over"),
    [
        (Refused(409, "not yours", code="stale_attempt"), True),
        (Refused(404, "unknown", code="unknown_run"), True),
        (Refused(404, "no such route", code="not_found"), False),
        (Refused(409, "something else", code="conflict"), False),
    ],
)
def test_a_run_is_over_when_the_server_says_so_and_not_before(
    relay_to: Callable[[Any], Relay], refused: Refused, over: bool
) -> None:
    peer = Peer(refused)
    relay = relay_to(peer)
    until(lambda: relay.over or len(peer.bodies) > 2)
    assert bool(relay.over) is over


def test_a_project_that_does_not_train_for_a_while_loses_no_job(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    disabled = (404, "training_disabled")
    for route in ("claim", "bundle", "predictions", "result"):
        server.order(route, disabled)
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    server.order("progress", disabled, disabled)
    server.wait_for(lambda: not server.ordered("progress"))
    (agent.folder().path / "go").touch()
    agent.join()
    assert told.result is not None
    assert told.result["failure"] is None
    assert not server.ordered("result")


def test_a_token_that_is_refused_is_said_once_also_after_other_trouble(
    relay_to: Callable[[Any], Relay],
) -> None:
    away, wrong = ServerUnreachable("away"), WrongToken(401, "The server refused the token.")
    peer = Peer(away, wrong, away, wrong)
    relay = relay_to(peer)
    said: list[str] = []
    relay._voice.say = said.append  # type: ignore[method-assign]
    until(lambda: len(peer.bodies) > 4)
    assert ["refused the token" in line for line in said].count(True) == 1


def test_the_grace_of_a_cancel_is_a_number_that_can_be_meant(
    job: HeldJob, relay_to: Callable[[Any], Relay]
) -> None:
    relay = relay_to(Peer({"cancel": True, "grace_seconds": "soon", "next_seq": 0}))
    until(lambda: relay.cancel_grace_s is not None)
    assert relay.cancel_grace_s == job.job.grace_s


def test_many_events_come_home_in_batches(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    told = offer(server, tmp_path, "wait")
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    write_events(agent.folder(), 5000)
    server.wait_for(lambda: len(told.events) > 5000)
    (agent.folder().path / "go").touch()
    agent.join()
    assert told.result is not None
    assert told.result["next_seq"] == len(told.events)


def test_trouble_while_it_runs_loses_nothing(server: ProtocolServer, work: Work, tmp_path: Path) -> None:
    told = offer(server, tmp_path)
    server.order("progress", 503, RESET, LOST, 500, LOST, (409, "events_missing", {"next_seq": 0}), HANG)
    agent = work()
    said = agent.join()
    assert told.result is not None
    assert [event["event"] for event in told.events].count("metric") == 10
    assert told.result["next_seq"] == len(told.events)
    assert "the server answers again" in said


@pytest.mark.parametrize("phase", ["claim", "bundle", "running", "result"])
def test_a_server_that_is_away_for_a_while_in_any_phase_loses_nothing(
    server: ProtocolServer, work: Work, tmp_path: Path, phase: str
) -> None:
    told = offer(server, tmp_path, "wait")
    if phase == "bundle":
        server.order("bundle", HANG)
    agent = work()
    go = agent.folder().path / "go"
    if phase == "claim":
        server.wait_for(lambda: server.requests)
    elif phase == "bundle":
        server.wait_for(lambda: "bundle" in server.requests)
    else:
        server.wait_for(lambda: len(told.events) >= 5)
    with server.away():
        if phase == "result":
            go.touch()
            agent.wait_for(agent.folder().exit.exists)
        time.sleep(0.3)
    server.wait_for(lambda: len(told.events) >= 5)
    go.touch()
    agent.join()
    assert told.result is not None
    assert told.result["exit"]["code"] == 0
    assert told.predictions is not None


def test_without_a_word_from_the_server_for_too_long_the_job_is_cancelled_and_told_later(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait", lost_after_s=0.6)
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    with server.away():
        agent.wait_for(agent.folder().exit.exists)
    agent.join()
    assert told.result is not None
    assert told.result["exit"]["reason"] == "cancelled"
    assert told.result["failure"]["code"] == "heartbeat_lost"
    assert "no word from the server" in told.result["failure"]["message"]


def test_a_lost_job_is_given_up_when_the_server_stays_away_and_the_next_one_is_asked_for(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait", lost_after_s=0.4)
    agent = work(once=False)
    server.wait_for(lambda: len(told.events) >= 5)
    server.leave()
    agent.wait_for(lambda: "it is given up" in agent.said.getvalue())
    agent.wait_for(lambda: agent.said.getvalue().count("asking http") == 2)
    server.come_back()
    told.stale = True
    second = offer(server, tmp_path, run_id="run-2")
    server.wait_for(lambda: second.result)


def test_a_job_that_succeeded_is_kept_for_a_server_that_is_away_longer_than_that(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait", lost_after_s=0.5)
    agent = work()
    server.wait_for(lambda: len(told.events) >= 5)
    with server.away():
        (agent.folder().path / "go").touch()
        agent.wait_for(agent.folder().exit.exists)
        time.sleep(0.8)
    assert agent.join().count("the end of the job waits for the server, for up to 5 s") == 1
    assert told.result is not None
    assert told.result["exit"]["code"] == 0
    assert told.result["failure"] is None


def test_a_download_without_a_word_from_the_server_ends_too(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, lost_after_s=0.4)
    server.order("bundle", HANG)
    agent = work()
    server.wait_for(lambda: "bundle" in server.requests)
    with server.away():
        agent.wait_for(lambda: "no word from the server" in agent.said.getvalue())
    agent.join()
    assert told.result is not None
    assert told.result["failure"]["code"] == "heartbeat_lost"
