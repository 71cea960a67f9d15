"""Bodies of agents: limited in size and time, and large ones piece by piece."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Callable

from fastapi import Request

from potato_ray.server.origins import header_values
from potato_ray.server.problems import Rejected

TIMEOUT_S = 60.0
"""For a body that is read as a whole."""
STALL_S = 60.0
"""For a body in pieces: the longest time without one. TCP may take 40 s to go on after a cut of 20 s."""
LEAST_BYTES_PER_S, JUDGED_AFTER_S = 1024.0, 60.0
"""For a body in pieces: slower than this, from so many seconds on, it is given up."""


def announced_bytes(request: Request) -> int | None:
    """Content-Length; None where there is none. Raises Rejected (400) for what is no number."""
    lengths = header_values(request.scope, "content-length")
    if not lengths:
        return None
    if len(set(lengths)) > 1 or not re.fullmatch(r"[0-9]{1,18}", lengths[0]):
        raise Rejected(
            400,
            "The header Content-Length is no number of bytes.",
            code="malformed_request",
            next_step="Send the number of bytes of the body.",
        )
    return int(lengths[0])


async def whole_body(request: Request, limit: int, timeout_s: float = TIMEOUT_S) -> bytes:
    """All of a body. Raises Rejected (400, 408, 413), ClientDisconnect."""
    if (announced_bytes(request) or 0) > limit:
        raise _too_large(limit)
    body = bytearray()
    try:
        async with asyncio.timeout(timeout_s):
            async for chunk in request.stream():
                body += chunk
                if len(body) > limit:
                    raise _too_large(limit)
    except TimeoutError:
        raise _too_slow(f"It was waited for {timeout_s:g} s.") from None
    return bytes(body)


async def pieces(
    request: Request, stall_s: float = STALL_S, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[bytes]:
    """A body as it comes. Raises Rejected (408) for one that stalls or crawls, ClientDisconnect."""
    began, taken = clock(), 0
    stream = request.stream()
    while True:
        try:
            async with asyncio.timeout(stall_s):
                chunk = await anext(stream, None)
        except TimeoutError:
            raise _too_slow(f"Nothing came for {stall_s:g} s.") from None
        if chunk is None:
            return
        taken += len(chunk)
        lasted_s = clock() - began
        if lasted_s > JUDGED_AFTER_S and taken < LEAST_BYTES_PER_S * lasted_s:
            raise _too_slow(f"{taken} bytes came in {lasted_s:.0f} s.")
        if chunk:
            yield chunk


def _too_large(limit: int) -> Rejected:
    return Rejected(
        413,
        "The body is too large.",
        code="body_too_large",
        evidence=f"The limit is {limit} bytes.",
        next_step="Send less at a time.",
    )


def _too_slow(evidence: str) -> Rejected:
    return Rejected(
        408,
        "The body did not arrive in time.",
        code="body_too_slow",
        evidence=evidence,
        next_step="Send it again.",
        headers={"Connection": "close"},
    )
