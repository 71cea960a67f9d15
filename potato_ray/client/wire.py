"""Calls and answers on the wire: requests, timeouts, limits, and what httpx's failures mean."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, replace
from typing import Any

import httpx

import potato_ray
from potato_ray.client.answers import Answer
from potato_ray.client.calls import Call
from potato_ray.client.failures import BadRequest, ClientError, ProtocolError, ServerUnavailable
from potato_ray.client.place import Place

CONNECT_S = 10.0
LIMITS = httpx.Limits(max_connections=None, max_keepalive_connections=20)
"""Each wait for a run holds a connection, and a program may wait for any number of them."""
MAX_ANSWER_BYTES = 256 * 1024 * 1024
"""Whole answers are small; what is long is streamed. So this only stops what never ends."""


_AGENT = f"potato-ray/{potato_ray.__version__}"


@dataclass(frozen=True)
class Wire:
    """How a place is spoken to. `timeout_s` is for each wait on the network, and for a whole short answer."""

    place: Place
    timeout_s: float

    def limit_s(self, call: Call) -> float:
        limit_s = max(self.timeout_s, call.at_least_s)
        return limit_s if call.at_most_s is None else min(limit_s, call.at_most_s)

    def request(self, call: Call) -> httpx.Request:
        """The request of a call. Raises BadRequest when its body is not JSON."""
        limit_s = self.limit_s(call)
        timeout = httpx.Timeout(limit_s, connect=min(self.timeout_s, limit_s, CONNECT_S))
        headers: dict[str, str | bytes] = {"Accept": call.accept, "User-Agent": _AGENT, **call.headers}
        if self.place.key is not None:
            headers.update(self.place.key.header())
        content = None
        if call.body is not None:
            content = _json(call.body)
            headers["Content-Type"] = "application/json"
        # Built by hand, not by a client: no cookies, and the path stays as it is encoded.
        return httpx.Request(
            call.method,
            self.place.url + call.path,
            params=dict(call.params) or None,
            headers=[(name.encode(), _header(value)) for name, value in headers.items()],
            content=content,
            extensions={"timeout": timeout.as_dict()},
        )

    def failure(self, call: Call, error: Exception) -> ClientError:
        """What an error of httpx means."""
        said = f"{call}: {type(error).__name__}" + (f" ({error})" if str(error) else "")
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            return _unavailable("server_unreachable", f"No server can be reached at {self.place.url}.", said)
        if isinstance(error, httpx.TimeoutException):
            return self.too_slow(call)
        if isinstance(error, httpx.LocalProtocolError):
            return BadRequest(
                "The request cannot be sent as it is.",
                evidence=said,
                next_step="Look at what was given for it: headers take no control characters.",
            )
        if isinstance(error, httpx.TransportError):
            return _unavailable("connection_lost", f"The connection to {self.place.url} was lost.", said)
        return ProtocolError(
            f"The answer of {self.place.url} cannot be read.",
            evidence=said,
            next_step="Check the address: it must be that of the potato_ray server itself.",
        )

    def too_slow(self, call: Call) -> ServerUnavailable:
        return _unavailable(
            "server_timeout",
            f"The server at {self.place.url} did not answer within {self.limit_s(call):g} s.",
            f"It was asked for {call}.",
        )

    def too_large(self, call: Call) -> ProtocolError:
        return ProtocolError(
            f"The answer of {self.place.url} has no end.",
            evidence=f"{call}: more than {MAX_ANSWER_BYTES} bytes came.",
            next_step="Check the address: it must be that of the potato_ray server itself.",
        )


class Gathering:
    """The body of a whole answer as it comes in, bounded in time and size."""

    def __init__(self, wire: Wire, call: Call) -> None:
        self._wire = wire
        self._call = call
        self._body = bytearray()
        self._deadline = time.monotonic() + wire.limit_s(call)

    def add(self, piece: bytes) -> None:
        """Raises ProtocolError when it is too long, ServerUnavailable when it takes too long."""
        self._body += piece
        if len(self._body) > MAX_ANSWER_BYTES:
            raise self._wire.too_large(self._call)
        if time.monotonic() > self._deadline:
            raise self._wire.too_slow(self._call)

    def complete(self, answer: Answer) -> Answer:
        return replace(answer, body=bytes(self._body))


def _unavailable(code: str, message: str, evidence: str) -> ServerUnavailable:
    steps = {
        "server_unreachable": "Check the address, and that potato-ray start is running there.",
        "connection_lost": "Look at what the server has done, and try again.",
        "server_timeout": "Try again, or give the client a larger timeout_s.",
    }
    return ServerUnavailable(message, code=code, evidence=evidence, next_step=steps[code])


def answer_of(response: httpx.Response, body: bytes = b"") -> Answer:
    headers = {name.lower(): value for name, value in response.headers.items()}
    return Answer(response.status_code, headers, body)


def _header(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode("utf-8", "replace")


def _json(body: Any) -> bytes:
    try:
        return json.dumps(body, allow_nan=False, default=_plain).encode("utf-8")
    except (TypeError, ValueError, RecursionError) as error:
        raise BadRequest(
            "The parameters are not of JSON's types.",
            evidence=f"{error}.",
            next_step="Use strings, finite numbers, booleans, None, lists and dicts.",
        ) from None


def _plain(value: Any) -> Any:
    """numpy's scalars and arrays as Python's."""
    try:
        return value.tolist()
    except AttributeError:
        raise TypeError(f"{type(value).__name__} is none of them") from None
