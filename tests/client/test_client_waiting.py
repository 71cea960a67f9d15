"""Waiting for the end of a run: by the stream, by asking, across a server that is gone for a while."""

from __future__ import annotations

import threading
import time as real_time
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from answering import Replies, Routes, event_stream, message, problem
from client_time import Time, client_of
from served_project import ServedProject
from serving import ScriptedServer

from potato_ray.client import (
    Cancelled,
    Client,
    NotFound,
    Run,
    RunFailed,
    RunRecord,
    ServerUnavailable,
    WaitTimedOut,
)
from potato_ray.registry.runs import Reservation
from potato_ray.registry.states import State

RUN: dict[str, Any] = {"run_id": "r", "status": "running", "step": "fitting"}
DONE = {"run_id": "r", "status": "success", "metrics": {"loss": 0.1}, "scores": {"metrics": {"val_f1": 0.8}}}


def status(*steps: str) -> dict[str, Any]:
    return {"runs": [{**RUN, "step": step} for step in steps], "queue": [], "last": None}


def handle(client: Client) -> Run:
    return Run(client._driver, client._patience, RunRecord("r"))


class AnsweredRun:
    """Answers for one run: its records in turn (the last one for ever), and streams in turn."""

    def __init__(self, records: list[Any], streams: list[Any]) -> None:
        self.asked = 0
        self.resumed: list[str | None] = []
        self._records, self._streams = records, streams
        self.routes = Routes(r=self._record, stream=self._stream)

    def _record(self, request: httpx.Request) -> httpx.Response:
        self.asked += 1
        record = self._records.pop(0) if len(self._records) > 1 else self._records[0]
        if isinstance(record, Exception):
            raise record
        return record if isinstance(record, httpx.Response) else httpx.Response(200, json=record)

    def _stream(self, request: httpx.Request) -> httpx.Response:
        self.resumed.append(request.headers.get("last-event-id"))
        return self._streams.pop(0) if self._streams else problem(404, "not_found")


def waited(answers: AnsweredRun, time: Time | None = None, **options: Any) -> tuple[Run, list[RunRecord]]:
    """The run after the wait, and everything that was shown on the way."""
    shown: list[RunRecord] = []
    with client_of(answers.routes, time) as client:
        run = client.run("r").wait(progress=shown.append, **options)
    return run, shown


def test_a_run_is_followed_by_the_stream_to_its_end() -> None:
    stream = event_stream(
        message(1, "status", status("fitting")),
        message(2, "run", {"run_id": "r", "event": "log"}),
        message(3, "status", status("saving")),
        message(4, "status", status()),
    )
    answers = AnsweredRun([RUN, RUN, DONE], [stream])
    run, shown = waited(answers)
    assert run.status == "success"
    assert run.metrics == {"loss": 0.1, "val_f1": 0.8}
    assert [record.step_line for record in shown] == ["running: fitting", "running: saving", "success"]
    assert answers.asked == 3


def test_a_stream_that_is_cut_goes_on_where_it_broke_off_and_shows_nothing_twice() -> None:
    first = event_stream(message(7, "status", status("fitting")), b"id: 8\nevent: status\nda", cut=True)
    second = event_stream(message(8, "status", status("saving")), message(9, "status", status()))
    answers = AnsweredRun([RUN] * 5 + [DONE], [first, second])
    run, shown = waited(answers)
    assert answers.resumed == [None, "7"]
    assert [record.step_line for record in shown] == ["running: fitting", "running: saving", "success"]
    assert run.ended


@pytest.mark.parametrize(
    "stream",
    [
        problem(404, "not_found"),
        httpx.Response(200, text="<html>proxy</html>", headers={"content-type": "text/html"}),
        event_stream(message(1, "status", "no object")),
        event_stream(b"data: not json\nevent: status\n\n"),
    ],
)
def test_without_a_stream_the_run_is_asked_for(stream: httpx.Response) -> None:
    time = Time()
    answers = AnsweredRun([RUN] * 12 + [DONE], [stream])
    run, _ = waited(answers, time)
    assert run.status == "success"
    assert len(answers.resumed) == 1
    assert 4 < time.now < 10


def test_a_waiting_run_shows_its_place() -> None:
    queue = [{"run_id": "other", "position": 1}, {"run_id": "r", "position": 2}]
    stream = event_stream(message(1, "status", {"runs": [], "queue": queue}))
    waiting = {"run_id": "r", "status": "queued", "position": 3}
    _, shown = waited(AnsweredRun([waiting, waiting, DONE], [stream]))
    assert [record.step_line for record in shown] == ["waiting #3", "waiting #2", "success"]


def test_a_failed_run_raises_its_error() -> None:
    failed = {**RUN, "status": "error", "error": "Only 3 items.", "error_code": "validation_failed"}
    failed |= {"error_evidence": "Of 10.", "error_next_step": "Annotate more."}
    with pytest.raises(RunFailed, match="Only 3 items") as failure:
        waited(AnsweredRun([failed], []))
    assert (failure.value.code, failure.value.evidence) == ("validation_failed", "Of 10.")
    assert failure.value.next_step == "Annotate more."


@pytest.mark.parametrize(("state", "error"), [("cancelled", Cancelled), ("interrupted", RunFailed)])
def test_other_ends_raise_too_unless_they_are_not_to(state: str, error: type[Exception]) -> None:
    ended = {**RUN, "status": state}
    with pytest.raises(error) as failure:
        waited(AnsweredRun([ended], []))
    assert failure.value.code == state  # type: ignore[attr-defined]
    run, _ = waited(AnsweredRun([ended], []), raise_on_failure=False)
    assert run.status == state


def test_a_wait_has_an_end_of_its_own() -> None:
    time = Time()
    with pytest.raises(WaitTimedOut, match="has not ended within 20 s") as failure:
        waited(AnsweredRun([RUN], []), time, timeout_s=20)
    assert time.now == 20
    assert "running: fitting" in failure.value.evidence


@pytest.mark.parametrize(
    "away", [lambda: problem(503, "controller_unavailable"), lambda: httpx.ConnectError("refused")]
)
def test_a_server_that_is_away_makes_no_wait_longer(away: Callable[[], Any]) -> None:
    time = Time()
    with pytest.raises(WaitTimedOut, match="has not ended within 20 s") as failure:
        waited(AnsweredRun([RUN, RUN, *[away() for _ in range(100)]], []), time, timeout_s=20)
    assert time.now == 20
    assert failure.value.evidence


def test_a_server_that_was_never_there_is_not_waited_for_until_the_deadline() -> None:
    time = Time()
    refused = AnsweredRun([httpx.ConnectError("refused") for _ in range(100)], [])
    with client_of(refused.routes, time) as client, pytest.raises(ServerUnavailable):
        handle(client).wait(timeout_s=20, progress=False)
    assert time.now < 3


def test_a_server_that_hangs_makes_no_wait_longer() -> None:
    started = real_time.monotonic()
    with ScriptedServer([None] * 20) as server, Client(server.url, timeout_s=30) as client:
        with pytest.raises(WaitTimedOut):
            handle(client).wait(timeout_s=0.1, progress=False)
        assert real_time.monotonic() - started < 15


def test_an_ended_run_is_waited_for_in_no_time() -> None:
    run, _ = waited(AnsweredRun([DONE], []), timeout_s=0)
    assert run.status == "success"


def test_what_the_callback_raises_ends_the_wait() -> None:
    stream = event_stream(message(1, "status", status("fitting")), message(2, "status", status("saving")))
    answers = AnsweredRun([{**RUN, "step": "loading"}], [stream])

    def watch(record: RunRecord) -> None:
        if record.step == "fitting":
            raise NotFound("The callback asked for another run.")

    with client_of(answers.routes) as client, pytest.raises(NotFound, match="asked for another"):
        handle(client).wait(progress=watch)


def test_a_server_that_is_restarted_is_waited_for() -> None:
    gone = [problem(503, "controller_unavailable") for _ in range(5)]
    run, _ = waited(AnsweredRun([RUN, RUN, *gone, DONE], []))
    assert run.status == "success"


def test_a_server_that_was_there_is_waited_for_also_when_nothing_listens_any_more() -> None:
    refused = [httpx.ConnectError("refused") for _ in range(6)]
    time = Time()
    run, _ = waited(AnsweredRun([RUN, RUN, *refused, DONE], []), time)
    assert run.status == "success"
    assert 10 < time.now < 30


def test_a_server_that_does_not_come_back_ends_the_wait() -> None:
    time = Time()
    gone = [problem(503, "controller_unavailable") for _ in range(100)]
    with pytest.raises(ServerUnavailable):
        waited(AnsweredRun([RUN, RUN, *gone], []), time)
    assert 30 < time.now < 65


def test_the_real_stream_brings_each_step(project: ServedProject, client: Client) -> None:
    run = client.train("sklearn-text", "sentiment")
    shown: list[str] = []
    mover = threading.Thread(target=move_along, args=(project, run.id, shown))
    mover.start()
    run.wait(120, progress=lambda record: shown.append(record.step_line))
    mover.join(20)
    assert shown[-1] == "success"
    assert "running: fitting" in shown
    assert len(shown) == len(set(shown))
    assert run.headline is not None
    assert run.headline.value == 0.8


def move_along(project: ServedProject, run_id: str, shown: list[str]) -> None:
    """Take a run to success, each step once the one before was shown."""
    scores = {"metrics": {"val_macro_f1": 0.8}, "headline": HEADLINE}
    project.write("begin", run_id, Reservation("local"), 1)
    project.write("transition", run_id, 1, State.RUNNING)
    fitting = {"event": "status", "phase": "fitting", "step": "fitting"}
    project.write("record_events", run_id, 1, 0, [fitting])
    deadline = real_time.monotonic() + 20
    while "running: fitting" not in shown and real_time.monotonic() < deadline:
        real_time.sleep(0.02)
    for state in (State.EVALUATING, State.FINISHING):
        project.write("transition", run_id, 1, state)
    project.write("transition", run_id, 1, State.SUCCESS, scores=scores)


HEADLINE = {"split": "val", "metric": "macro_f1", "value": 0.8, "low": 0.7, "high": 0.9, "n_items": 28}


@pytest.mark.parametrize(("at_once", "status"), [(True, "cancelled"), (False, "cancelling")])
def test_a_cancel_that_was_taken_is_answered_without_another_request(at_once: bool, status: str) -> None:
    answer = {"run_id": "r", "state": "building", "cancelled": at_once}
    replies = Replies(httpx.Response(200, json=answer))
    with client_of(replies) as client:
        waiting = RunRecord("r", status="queued", position=2)
        run = Run(client._driver, client._patience, waiting).cancel()
    assert (run.status, run.record.state, run.position) == (status, "building", 0)
    assert len(replies.requests) == 1


def test_cancelling_a_waiting_run_ends_it(client: Client) -> None:
    client.train("sklearn-text", "sentiment")
    waiting = client.train("sklearn-text", "sentiment")
    assert waiting.cancel().status == "cancelled"
    with pytest.raises(Cancelled):
        waiting.wait()
