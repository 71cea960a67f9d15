"""Answers of a server for httpx.MockTransport: JSON, problems, and bodies that are cut."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx

Handler = Callable[[httpx.Request], httpx.Response]


class Cut(httpx.SyncByteStream, httpx.AsyncByteStream):
    """A body whose connection is lost after these pieces."""

    def __init__(self, *pieces: bytes) -> None:
        self._pieces = pieces

    def __iter__(self) -> Iterator[bytes]:
        yield from self._pieces
        raise httpx.ReadError("the connection was reset")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            yield piece
        raise httpx.ReadError("the connection was reset")


class Replies:
    """A handler that gives these answers in turn; the requests that it got are in `requests`."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = list(answers)

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        assert self._answers, f"one request too many: {request.method} {request.url}"
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


class Routes:
    """A handler that answers by the end of the path; each value is one answer's JSON, or a function."""

    def __init__(self, **answers: Any) -> None:
        self.requests: list[httpx.Request] = []
        self._answers = answers

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests.append(request)
        answer = self._answers[request.url.path.rpartition("/")[2]]
        return answer(request) if callable(answer) else httpx.Response(200, json=answer)


def problem(status: int, code: str, headers: dict[str, str] | None = None, **more: Any) -> httpx.Response:
    """A problem answer, as the server's problems.py makes it."""
    body = {"status": status, "error": f"It says {code}.", "error_code": code, **more}
    given = {"content-type": "application/problem+json", **(headers or {})}
    return httpx.Response(status, content=json.dumps(body), headers=given)


def lines(*bodies: Any, cut: bool = False) -> httpx.Response:
    """JSON lines, whole or cut in the middle of the last one."""
    whole = b"".join(json.dumps(body).encode() + b"\n" for body in bodies)
    stream: Any = Cut(whole[:-5]) if cut else httpx.ByteStream(whole)
    return httpx.Response(200, headers={"content-type": "application/x-ndjson"}, stream=stream)


def event_stream(*pieces: bytes, cut: bool = False) -> httpx.Response:
    """A stream of server-sent events that ends, or is cut."""
    stream: Any = Cut(*pieces) if cut else httpx.ByteStream(b"".join(pieces))
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, stream=stream)


def message(number: int, event: str, data: Any) -> bytes:
    return f"id: {number}\nevent: {event}\ndata: {json.dumps(data)}\n\n".encode()
