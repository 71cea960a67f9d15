"""The bodies of requests: how large, of what kind, and whether every route can take them."""

from __future__ import annotations

import asyncio
import json
import math
import re
from collections.abc import Collection, Iterator
from typing import Any, NoReturn

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from potato_ray.server import problems
from potato_ray.server.destinations import LOGIN, LOGOUT
from potato_ray.server.methods import takes
from potato_ray.server.origins import SAFE_METHODS, header_values
from potato_ray.server.problems import Rejected

LIMIT = 1024 * 1024
"""Bytes of one body."""
DEPTH = 64
"""How deep JSON may be nested: far more than any route takes, far less than Python's stack."""
TIMEOUT_S = 60.0

JSON = "application/json"
FORM = "application/x-www-form-urlencoded"
_FORMS = frozenset({LOGIN, LOGOUT})


class Bodies:
    """An ASGI middleware: reads the body of what changes something, and refuses what no route takes.

    Methods without effect have no body here: theirs is not read. `streamed` holds (method, form of
    the path) of the routes that read a large body piece by piece, and limit it themselves.
    """

    def __init__(
        self,
        app: ASGIApp,
        limit: int = LIMIT,
        timeout_s: float = TIMEOUT_S,
        streamed: Collection[tuple[str, re.Pattern[str]]] = (),
    ) -> None:
        self.app = app
        self._limit = limit
        self._timeout_s = timeout_s
        self._streamed = tuple(streamed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or self._limits_itself(scope):
            await self.app(scope, receive, send)
            return
        try:
            self._check_length(scope)
            if scope["method"] in SAFE_METHODS:
                passed_on = receive
            else:
                body = await self._read(receive)
                if body is None:
                    return
                # What no route takes is refused unread: strangers may send it, and to check it takes long.
                if takes(scope["app"], scope):
                    _check_kind(scope, body)
                passed_on = _again(body, receive)
        except Rejected as error:
            await problems.of(error)(scope, receive, send)
            return
        await self.app(scope, passed_on, send)

    def _limits_itself(self, scope: Scope) -> bool:
        return any(
            scope["method"] == method and form.fullmatch(scope["path"]) for method, form in self._streamed
        )

    def _check_length(self, scope: Scope) -> None:
        lengths = header_values(scope, "content-length")
        if len(set(lengths)) > 1 or not all(re.fullmatch(r"[0-9]{1,18}", each) for each in lengths):
            raise _malformed("The header Content-Length is no number of bytes.")
        if lengths and int(lengths[0]) > self._limit:
            raise self._too_large()

    async def _read(self, receive: Receive) -> bytes | None:
        """The whole body; None when the client went away."""
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._collect(receive)
        except TimeoutError:
            raise Rejected(
                408,
                "The body did not arrive in time.",
                code="body_too_slow",
                evidence=f"It was waited for {self._timeout_s:g} s.",
                next_step="Send it again.",
                headers={"Connection": "close"},
            ) from None

    async def _collect(self, receive: Receive) -> bytes | None:
        body = bytearray()
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return None
            body += message.get("body", b"")
            if len(body) > self._limit:
                raise self._too_large()
            if not message.get("more_body", False):
                return bytes(body)

    def _too_large(self) -> Rejected:
        return Rejected(
            413,
            "The body is too large.",
            code="body_too_large",
            evidence=f"The limit is {self._limit} bytes.",
            next_step="Send less; large data belong in the project's files.",
        )


def _again(body: bytes, receive: Receive) -> Receive:
    """Give the body once more, then whatever comes after it."""
    given = False

    async def receive_again() -> Message:
        nonlocal given
        if given:
            return await receive()
        given = True
        return {"type": "http.request", "body": body, "more_body": False}

    return receive_again


def _check_kind(scope: Scope, body: bytes) -> None:
    """A form of a foreign page can be of three kinds only, and JSON is none of them."""
    if not body:
        return
    wanted = FORM if scope["path"] in _FORMS else JSON
    sent = " ".join(header_values(scope, "content-type"))
    if sent.partition(";")[0].strip().lower() != wanted:
        raise Rejected(
            415,
            "The body is of a kind that this route does not take.",
            code="unsupported_media_type",
            evidence=f"Content-Type is {sent[:100] or 'missing'}.",
            next_step=f"Send it with Content-Type: {wanted}.",
        )
    if wanted == JSON:
        check_json(body)


def check_json(body: bytes) -> None:
    """Raises Rejected (400) for what is no JSON, and for JSON that other programs could not read back:

    NaN, numbers beyond all bounds, NUL and halves of characters in a text, no end of nesting.
    """
    try:
        value = json.loads(body.decode("utf-8"), parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise _malformed("The body is no UTF-8 text.", f"Byte {error.start} is not.") from None
    except RecursionError:
        raise _too_deep() from None
    except json.JSONDecodeError as error:
        raise _malformed("The body is no JSON.", f"{error}.") from None
    except ValueError as error:
        raise _malformed("The body holds a number that cannot be read.", f"{error}.") from None
    for each in _leaves(value):
        _check_leaf(each)


def _leaves(value: Any) -> Iterator[Any]:
    """Every name and value; raises Rejected for nesting deeper than DEPTH."""
    level: list[Any] = [value]
    for _ in range(DEPTH):
        inner: list[Any] = []
        for each in level:
            if isinstance(each, dict):
                yield from each
                inner += each.values()
            elif isinstance(each, list):
                inner += each
            else:
                yield each
        if not inner:
            return
        level = inner
    raise _too_deep()


def _check_leaf(value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise _malformed("The body holds a number that cannot be read.", "It is beyond all bounds.")
    if not isinstance(value, str):
        return
    if "\0" in value:
        raise _malformed("The body holds a NUL character.")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _malformed("The body holds half a character.", "A surrogate stands alone.") from None


def _no_number(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON number")


def _too_deep() -> Rejected:
    return _malformed("The body is nested too deeply.", f"The limit is {DEPTH} levels.")


def _malformed(message: str, evidence: str = "") -> Rejected:
    return Rejected(
        400,
        message,
        code="malformed_request",
        evidence=evidence,
        next_step="Correct it; /openapi.json describes every route.",
    )
