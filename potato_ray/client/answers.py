"""From an HTTP answer to a value or to an error of ours; nothing here sends anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from potato_ray.client.failures import (
    AccessRefused,
    BadRequest,
    ClientError,
    Conflict,
    NotFound,
    ProtocolError,
    ServerError,
    ServerUnavailable,
    StartRefused,
    TooManyRequests,
)

_BY_STATUS: Mapping[int, type[ClientError]] = {
    401: AccessRefused,
    403: AccessRefused,
    404: NotFound,
    409: Conflict,
    429: TooManyRequests,
    503: ServerUnavailable,
}
_OF_STARTS = frozenset({400, 409, 429})
_OF_PROXIES = frozenset({502, 504})
_GUESSES = "too_many_guesses"
_NO_KEY = "admin_key_required"
"""429 for an address that has sent too many wrong keys, whatever it asks for."""

_EXCERPT = 120


@dataclass(frozen=True)
class Answer:
    """An HTTP answer; names of `headers` are in small letters. `body` may be left to read."""

    status: int
    headers: Mapping[str, str]
    body: bytes = field(default=b"", repr=False)

    @property
    def is_good(self) -> bool:
        return 200 <= self.status < 300

    @property
    def media_type(self) -> str:
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_after_s(self) -> float | None:
        """Seconds, from either form of Retry-After; None when it is absent or cannot be read."""
        value = self.headers.get("retry-after", "").strip()
        if value.isascii() and value.isdigit():
            return float(value)
        try:
            at = parsedate_to_datetime(value)
        except (TypeError, ValueError, IndexError):
            return None
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return max(0.0, (at - datetime.now(UTC)).total_seconds())


def parsed(text: bytes | str) -> Any:
    """What JSON stands for. Raises ValueError, also for what is nested too deeply to be read."""
    try:
        return json.loads(text)
    except RecursionError:
        raise ValueError("It is nested too deeply.") from None


def failure_of(answer: Answer) -> ClientError | None:
    """The error that an answer stands for; None when it is a good one."""
    if answer.is_good:
        return None
    problem = _problem(answer)
    kind = _kind(answer.status, problem)
    failure = kind(
        str(problem.get("error") or f"The server answered with status {answer.status}."),
        code=str(problem.get("error_code") or ""),
        evidence=str(problem.get("evidence") or ("" if problem else _seen(answer))),
        next_step=_next_step(kind, problem),
    )
    failure.status = answer.status
    failure.retry_after_s = answer.retry_after_s
    return failure


def _next_step(kind: type[ClientError], problem: Mapping[str, Any]) -> str:
    if problem.get("error_code") == _NO_KEY:
        # What the server says is for browsers as well.
        return _NEXT_STEPS[AccessRefused]
    return str(problem.get("next_step") or _NEXT_STEPS.get(kind, ""))


_NEXT_STEPS: Mapping[type[ClientError], str] = {
    AccessRefused: "Give the admin key: api_key=... or POTATO_ADMIN_API_KEY. It is admin_api_key in the "
    "project's configuration, POTATO_ADMIN_API_KEY of the server, or in admin_api_key.txt of the project.",
    NotFound: "Check the address, and that model_training.enabled is true on the server.",
    ProtocolError: "Check the address: it must be that of the potato_ray server itself.",
    ServerUnavailable: "Wait until the server is up, and try again.",
}


def _kind(status: int, problem: Mapping[str, Any]) -> type[ClientError]:
    if problem.get("started") is False and status in _OF_STARTS and problem["error_code"] != _GUESSES:
        return StartRefused
    if status in _OF_PROXIES and not problem:
        return ServerUnavailable
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    if status >= 500:
        return ServerError
    return BadRequest if status >= 400 else ProtocolError


def _problem(answer: Answer) -> Mapping[str, Any]:
    """The members of a problem answer; empty when it is none of ours."""
    try:
        body = parsed(answer.body)
    except ValueError:
        return {}
    return body if isinstance(body, Mapping) and "error_code" in body else {}


def json_of(answer: Answer) -> Any:
    """The JSON in a good answer. Raises ProtocolError."""
    try:
        return parsed(answer.body)
    except ValueError:
        raise not_ours(answer, "JSON") from None


def list_of(answer: Answer, name: str) -> list[Any]:
    """The list under `name` in a good answer. Raises ProtocolError."""
    body = json_of(answer)
    found = body.get(name) if isinstance(body, Mapping) else None
    if not isinstance(found, list):
        raise not_ours(answer, f"a list of {name}")
    return found


def require(answer: Answer, media_type: str) -> None:
    """Raise ProtocolError unless a good answer is of this media type."""
    if answer.media_type != media_type:
        raise not_ours(answer, media_type)


def not_ours(answer: Answer, wanted: str) -> ProtocolError:
    """The error for a good answer that is not what was asked for."""
    failure = ProtocolError(
        f"The answer is not {wanted}.", evidence=_seen(answer), next_step=_NEXT_STEPS[ProtocolError]
    )
    failure.status = answer.status
    return failure


def _seen(answer: Answer) -> str:
    """What came instead, in one sentence; the beginning of a text."""
    if 300 <= answer.status < 400:
        elsewhere = answer.headers.get("location", "nowhere")
        return f"It sends us on to {elsewhere}, and redirects are not followed."
    start = " ".join(answer.body[: 4 * _EXCERPT].decode("utf-8", "replace").split())[:_EXCERPT]
    kind = answer.media_type or "an answer without a type"
    return f"It is {kind} and begins with: {start}" if start else f"It is {kind}."
