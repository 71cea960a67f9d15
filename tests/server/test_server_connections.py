"""Connections of clients that say nothing, never come to an end, or take nothing."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from potato_ray.server import connections
from potato_ray.server.connections import TimedConnection

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]
GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 1000\r\n\r\n"
SOON_S = 0.2
"""The deadlines of these tests; a connection that is kept is waited for much longer."""


@pytest.fixture(autouse=True)
def short_deadlines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", SOON_S)
    monkeypatch.setattr(connections, "STALL_S", SOON_S)


async def greet(scope: Any, receive: Any, send: Any, after_s: float = 0.0) -> None:
    """Answers without a look at the body."""
    await asyncio.sleep(after_s)
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"2")]})
    await send({"type": "http.response.body", "body": b"ok"})


async def greet_late(scope: Any, receive: Any, send: Any) -> None:
    await greet(scope, receive, send, after_s=3 * SOON_S)


def talked(app: Any, talk: Talk) -> Any:
    """What `talk` answers, as a client of an application."""

    async def both() -> Any:
        config, state = uvicorn.Config(app, log_config=None, lifespan="off"), ServerState()
        server = await asyncio.get_running_loop().create_server(
            lambda: TimedConnection(config=config, server_state=state, app_state={}), "127.0.0.1", 0
        )
        async with server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                return await asyncio.wait_for(talk(reader, writer), 10)
            finally:
                writer.transport.abort()
                await asyncio.wait(state.tasks or {asyncio.create_task(asyncio.sleep(0))}, timeout=10)

    return asyncio.run(both())


async def trickle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """A byte now and then, until the server hangs up; all that it said."""
    rest = asyncio.create_task(said_until_the_end(reader))
    while not rest.done():
        writer.write(b"x")
        await asyncio.wait({rest}, timeout=SOON_S / 10)
    return await rest


async def said_until_the_end(reader: asyncio.StreamReader) -> bytes:
    """A byte that crosses the server's end of the connection is answered by a reset of it."""
    said = b""
    with contextlib.suppress(ConnectionResetError):
        while block := await reader.read(1 << 16):
            said += block
    return said


def test_who_says_nothing_is_hung_up_on() -> None:
    assert talked(greet, lambda reader, _: reader.read()) == b""


def test_a_head_without_an_end_is_hung_up_on() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(GET[:-2] + b"X-Endless: ")
        return await trickle(reader, writer)

    assert talked(greet, talk) == b""


def test_a_body_that_goes_on_behind_its_answer_is_hung_up_on() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(POST)
        return await trickle(reader, writer)

    assert talked(greet, talk).endswith(b"\r\n\r\nok")


def test_an_answer_that_takes_long_and_the_next_request_are_waited_for() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[bytes]:
        answers = []
        for _ in range(2):
            writer.write(GET)
            answers.append((await reader.readuntil(b"ok"))[-2:])
        return answers

    assert talked(greet_late, talk) == [b"ok", b"ok"]


def test_a_reader_that_takes_nothing_is_hung_up_on_and_its_answer_ends() -> None:
    ended = asyncio.Event()

    async def left(receive: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    async def pour(scope: Any, receive: Any, send: Any) -> None:
        gone = asyncio.create_task(left(receive))
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while not gone.done():
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            await asyncio.sleep(0)
        ended.set()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        writer.write(GET)
        await ended.wait()
        return True

    assert talked(pour, talk)
