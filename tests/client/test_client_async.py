"""The async client: the same names, answers and errors as the other, on an event loop."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import httpx
import pytest
from answering import Replies, Routes, event_stream, lines, message, problem
from client_time import KEY, Time, async_client_of
from served_project import ServedProject

from potato_ray.client import (
    AsyncClient,
    AsyncPredictions,
    AsyncRun,
    Client,
    NotFound,
    Predictions,
    ProtocolError,
    Run,
    RunFailed,
    RunRecord,
    ServerUnavailable,
    WaitTimedOut,
)
from potato_ray.registry.states import State


def run(coroutine: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(coroutine, 60))


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize(
    ("sync", "twin"), [(Client, AsyncClient), (Run, AsyncRun), (Predictions, AsyncPredictions)]
)
def test_both_clients_have_the_same_names_and_parameters(sync: type, twin: type) -> None:
    assert names(twin) == {"aclose" if name == "close" else name for name in names(sync)}
    for name in {*names(sync), "__init__"} - {"close"}:
        assert taken(getattr(sync, name)) == taken(getattr(twin, name)), name


def taken(method: Any) -> list[tuple[Any, ...]]:
    """What a method takes: name, kind, default and type of each parameter."""
    if not callable(method):
        return []
    parameters = inspect.signature(method).parameters.values()
    return [(each.name, each.kind, each.default, sync_name(each.annotation)) for each in parameters]


def sync_name(annotation: Any) -> str:
    return str(annotation).replace("Asynchronous", "Blocking").replace("Async", "")


def test_a_whole_run_on_the_real_application(project: ServedProject, tmp_path: Path) -> None:
    async def whole() -> None:
        async with AsyncClient(project.url, KEY) as client:
            started = await client.train("sklearn-text", "sentiment")
            await asyncio.to_thread(complete, project, started.id)
            await started.wait(30)
            assert [event["message"] async for event in started.events()] == ["hello"]
            assert [each.instance_id async for each in started.predictions()] == ["a"]
            assert await started.download(folder=tmp_path / "home") == [tmp_path / "home" / "f.json"]
            assert "hello" in await started.log()
            assert [each.id for each in await client.runs()] == [started.id]
            assert (await started.refresh()).status == "success"

    run(whole())
    assert (tmp_path / "home" / "f.json").read_text() == "{}"


def complete(project: ServedProject, run_id: str) -> None:
    """Take a run to success, with an event, a prediction and a file."""
    (project.artifacts(run_id) / "f.json").write_text("{}")
    project.write("begin", run_id, None, 1)
    project.write("transition", run_id, 1, State.RUNNING)
    project.write("record_events", run_id, 1, 0, [{"event": "log", "level": "info", "message": "hello"}])
    row = {"instance_id": "a", "schema_name": "sentiment", "payload": {"label": "positive"}}
    project.write("store_predictions", run_id, 1, [row])
    for state in (State.EVALUATING, State.FINISHING, State.SUCCESS):
        project.write("transition", run_id, 1, state)


def test_a_start_is_repeated_with_the_same_key() -> None:
    started = httpx.Response(200, json={"started": True, "run_id": "r", "queued": False, "position": 0})
    replies = Replies(httpx.ReadError("reset"), problem(503, "x", {"retry-after": "3"}), started)
    time = Time()

    async def start() -> None:
        async with async_client_of(replies, time) as client:
            assert (await client.train("t", "s")).id == "r"

    run(start())
    assert time.slept == [0.25, 3]
    assert len({request.headers["idempotency-key"] for request in replies.requests}) == 1


def test_a_cancel_that_was_taken_is_answered_without_another_request() -> None:
    replies = Replies(httpx.Response(200, json={"run_id": "r", "state": "running", "cancelled": False}))

    async def cancel() -> None:
        async with async_client_of(replies) as client:
            record = (await handle(client).cancel()).record
            assert (record.status, record.state) == ("cancelling", "running")

    run(cancel())
    assert len(replies.requests) == 1


def test_a_run_is_followed_by_the_stream() -> None:
    running = {"run_id": "r", "status": "running", "step": "saving"}
    records = [running, {"run_id": "r", "status": "error", "error": "It broke.", "error_code": "fit_failed"}]
    stream = event_stream(
        message(1, "status", {"runs": [running]}), message(2, "status", {"runs": [], "queue": []})
    )
    routes = Routes(r=lambda _: httpx.Response(200, json=records.pop(0)), stream=lambda _: stream)
    shown: list[str] = []

    async def follow() -> None:
        async with async_client_of(routes) as client:
            await handle(client).wait(progress=lambda record: shown.append(record.step_line))

    with pytest.raises(RunFailed, match="It broke"):
        run(follow())
    assert shown == ["running: saving", "error"]


def handle(client: AsyncClient) -> AsyncRun:
    return AsyncRun(client._driver, client._patience, RunRecord("r"))


def test_predictions_that_break_off_are_said() -> None:
    rows = [{"instance_id": "a", "schema_name": "s", "payload": {}}] * 2

    async def read() -> None:
        async with async_client_of(Replies(lines(*rows, cut=True))) as client:
            assert [each.instance_id async for each in handle(client).predictions()] == []

    with pytest.raises(ServerUnavailable, match="broke off after 1 of them"):
        run(read())


def test_an_answer_of_another_program_is_said() -> None:
    async def ask() -> None:
        async with async_client_of(Replies(httpx.Response(200, text="<html>"))) as client:
            await client.status()

    with pytest.raises(ProtocolError):
        run(ask())


def test_a_cancelled_task_leaves_nothing_open() -> None:
    stream = event_stream(message(1, "status", {"runs": [], "queue": [{"run_id": "r", "position": 1}]}))

    async def wait_and_stop() -> None:
        routes = Routes(r={"run_id": "r", "status": "queued"}, stream=lambda _: stream)
        async with async_client_of(routes) as client:
            client._driver.sleep = asyncio.sleep
            waiting = asyncio.create_task(handle(client).wait())
            await asyncio.sleep(0.05)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
        assert stream.is_closed

    run(wait_and_stop())


def test_what_the_callback_raises_ends_the_wait() -> None:
    running = {"run_id": "r", "status": "running", "step": "fitting"}
    stream = event_stream(message(1, "status", {"runs": [running]}))

    def watch(record: RunRecord) -> None:
        if record.step == "fitting":
            raise NotFound("The callback asked for another run.")

    async def follow() -> None:
        routes = Routes(r={**running, "step": "loading"}, stream=lambda _: stream)
        async with async_client_of(routes) as client:
            await handle(client).wait(progress=watch)

    with pytest.raises(NotFound, match="asked for another"):
        run(follow())
    assert stream.is_closed


def test_a_server_that_is_away_makes_no_wait_longer() -> None:
    gone, time = [problem(503, "controller_unavailable") for _ in range(50)], Time()

    async def follow() -> None:
        async with async_client_of(Replies(*gone), time) as client:
            await handle(client).wait(timeout_s=20, progress=False)

    with pytest.raises(WaitTimedOut, match="within 20 s"):
        run(follow())
    assert time.now == 20


def test_any_number_of_calls_can_be_open_at_once() -> None:
    wanted, body = 120, b'{"status": "ok"}'
    answer = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(body)
    everybody = asyncio.Event()
    connected: list[asyncio.StreamWriter] = []

    async def hold(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connected.append(writer)
        if len(connected) == wanted:
            everybody.set()
        await asyncio.wait_for(everybody.wait(), 20)
        writer.write(answer + body)
        await writer.drain()

    async def asked() -> None:
        server = await asyncio.start_server(hold, "127.0.0.1", 0)
        url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        async with server, AsyncClient(url, KEY, timeout_s=10, patience_s=0) as client:
            said = await asyncio.gather(*(client.health() for _ in range(wanted)))
            assert len(said) == wanted
            for writer in connected:
                writer.close()

    run(asked())
