"""What the server answered: read to a limit, and turned into a JSON object or into an error."""

from __future__ import annotations

import json
import re
import time
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage, HTTPResponse, IncompleteRead
from typing import Any, Mapping, NamedTuple, Sequence

from potato_ray.agent.errors import (
    AgentError,
    Misdirected,
    ProtocolMismatch,
    Refused,
    ServerUnreachable,
    WrongToken,
)
from potato_ray.agent.protocol import TOO_SLOW, TRAINING_DISABLED, UNKNOWN_PROTOCOL, VERSION, VERSION_HEADER

MAX_ANSWER_BYTES = 1024 * 1024
"""Of an answer that is read as JSON; a bundle is no such answer."""
_CHUNK_BYTES = 64 * 1024
_LONGEST_TEXT = 500
_PASSING = frozenset({408, 425, 429})
"""Refusals that are over after a while."""
_TOO_LARGE = 413
_NO_SUCH_PAGE = "not_found"
"""The code of a 404 for an address at which the server has nothing."""
_REGISTER_ADVICE = (
    "Where the server is, run potato-ray training register; put the token that it prints into the file of "
    "--token-file, or start this agent with it."
)
_ADDRESS_ADVICE = "Check --server: host, port and path prefix, and what stands between here and there."


class Answer(NamedTuple):
    """A whole answer. `body` is the JSON object in it, None when it holds none; `raw` is for messages."""

    status: int
    headers: HTTPMessage
    body: dict[str, Any] | None
    raw: bytes = b""


class EndlessAnswer(HTTPException):
    """The body is longer than any answer of the server's."""


class Incoming:
    """The body of one response, which is never read beyond its announced length."""

    def __init__(self, response: HTTPResponse) -> None:
        self._response = response
        length = response.getheader("Content-Length") or ""
        chunked = response.chunked
        self.left: int | None = None if chunked or not re.fullmatch(r"\d{1,18}", length) else int(length)
        if response.status in (204, 304):
            self.left = 0

    def read(self, most: int) -> bytes:
        """At most `most` bytes, b"" at the end. Raises IncompleteRead where the line was cut."""
        wanted = most if self.left is None else min(most, self.left)
        if wanted <= 0:
            return b""
        piece = self._response.read1(wanted)
        if self.left is not None:
            if not piece:
                raise IncompleteRead(b"", self.left)
            self.left -= len(piece)
        return piece

    def read_all(self, limit: int) -> bytes:
        """All of it. Raises EndlessAnswer past `limit` bytes, IncompleteRead where the line was cut."""
        if self.left is not None and self.left > limit:
            raise EndlessAnswer(f"it announces {self.left} bytes")
        pieces: list[bytes] = []
        size = 0
        while True:
            piece = self.read(_CHUNK_BYTES)
            if not piece:
                return b"".join(pieces)
            size += len(piece)
            if size > limit:
                raise EndlessAnswer(f"it goes on after {limit} bytes")
            pieces.append(piece)


def judge(answer: Answer, shown: str, secrets: Sequence[str] = ()) -> Answer:
    """The answer, if it is a good one of the server's. `shown`: the server's address for messages.

    Raises WrongToken, ProtocolMismatch, Refused, Misdirected or ServerUnreachable; `secrets` never get
    into what they say.
    """
    if answer.status in (200, 201, 202, 204, 206):
        return _own(answer, shown)
    problem = _problem(answer)
    told = {name: tell(problem.get(name), secrets) for name in ("message", "evidence", "next_step", "code")}
    if answer.status >= 500 or answer.status in _PASSING or told["code"] == TRAINING_DISABLED:
        raise _trouble(answer, shown, told)
    if told["code"] == UNKNOWN_PROTOCOL:
        theirs = tell(answer.headers.get(VERSION_HEADER), secrets)
        raise ProtocolMismatch(answer.status, theirs, evidence=told["evidence"], body=answer.body)
    if told["code"] == _NO_SUCH_PAGE:
        raise _misplaced(answer, shown, told)
    if answer.status == 401:
        raise _wrong_token(answer, shown, told)
    if not problem:
        raise _of_something_else(answer, shown, secrets)
    message = told.pop("message") or f"The server refused the request with {answer.status}."
    raise Refused(answer.status, message, body=answer.body, **told)


def retry_after_s(headers: HTTPMessage, now: float | None = None) -> float | None:
    """Seconds that the server asks to wait (a number or a date; `now` in epoch seconds), None for no word."""
    text = (headers.get("Retry-After") or "").strip()
    if re.fullmatch(r"\d{1,9}", text):
        return float(text)
    try:
        moment = parsedate_to_datetime(text).timestamp()
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
    return max(0.0, moment - (time.time() if now is None else now))


def tell(value: Any, secrets: Sequence[str] = ()) -> str:
    """A text from outside that may stand in a message: printable, not too long, without secrets."""
    text = value if isinstance(value, str) else ""
    for secret in secrets:
        if secret:
            text = text.replace(secret, "…")
    text = "".join(each if each.isprintable() else " " for each in text).strip()
    return text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…"


def _own(answer: Answer, shown: str) -> Answer:
    theirs = answer.headers.get(VERSION_HEADER)
    if theirs is not None and theirs.strip() != str(VERSION):
        raise ProtocolMismatch(answer.status, tell(theirs), evidence=f"So says the answer of {shown}.")
    return answer


def _problem(answer: Answer) -> dict[str, Any]:
    """The parts of a problem answer by our names; {} when the body is none."""
    body = answer.body or {}
    code = body.get("error_code", body.get("code"))
    if not isinstance(code, str):
        return {}
    return {**body, "code": code, "message": body.get("error", body.get("message"))}


def _trouble(answer: Answer, shown: str, told: Mapping[str, str]) -> ServerUnreachable:
    said = " ".join(part for part in (told["message"], told["evidence"]) if part)
    return ServerUnreachable(
        f"{shown} answered {answer.status}.",
        code=told["code"] or (TOO_SLOW if answer.status == 408 else "server_trouble"),
        evidence=said,
        next_step=told["next_step"],
        retry_after_s=retry_after_s(answer.headers),
    )


def _wrong_token(answer: Answer, shown: str, told: Mapping[str, str]) -> WrongToken:
    why = "it is unknown there, was replaced, or is that of another backend"
    if not told["code"]:
        why = f"{shown} answered 401, but not as a potato_ray server does"
    return WrongToken(
        401,
        f"The server refused the token: {why}.",
        code=told["code"],
        evidence=told["evidence"],
        next_step=_REGISTER_ADVICE,
        body=answer.body,
    )


def _misplaced(answer: Answer, shown: str, told: Mapping[str, str]) -> Misdirected:
    return Misdirected(
        f"{shown} answered {answer.status}: there is nothing for agents at this address.",
        evidence=told["message"],
        next_step="Check --server and its prefix.",
        retry_after_s=retry_after_s(answer.headers),
    )


def _of_something_else(answer: Answer, shown: str, secrets: Sequence[str]) -> AgentError:
    """What an answer means that is no problem answer of the server's."""
    if answer.status != _TOO_LARGE:
        return _misdirected(answer, shown, secrets)
    server = tell(answer.headers.get("Server"), secrets)
    return Refused(
        answer.status,
        f"{shown} answered {answer.status}, but not as a potato_ray server does.",
        evidence=f"It calls itself {server}." if server else "",
        next_step="Let what stands between here and there, such as a proxy, take larger requests.",
        body=answer.body,
    )


def _misdirected(answer: Answer, shown: str, secrets: Sequence[str]) -> Misdirected:
    if 300 <= answer.status < 400:
        where = tell(answer.headers.get("Location"), secrets) or "nowhere"
        return Misdirected(
            f"{shown} answered with a redirect, which is not followed: the token is for this address alone.",
            code="redirected",
            evidence=f"It leads to {where}.",
            next_step="Give that address as --server, if it is the server's.",
        )
    return Misdirected(
        f"{shown} answered {answer.status}, but not as a potato_ray server does.",
        evidence=_quote(answer.raw, secrets),
        next_step=_ADDRESS_ADVICE,
        retry_after_s=retry_after_s(answer.headers),
    )


def body_of(answer: Answer, shown: str, secrets: Sequence[str] = ()) -> dict[str, Any]:
    """The JSON object of a good answer. Raises Misdirected when there is none."""
    if answer.body is None:
        raise Misdirected(
            f"{shown} answered {answer.status} with something that is no JSON object.",
            code="unreadable_answer",
            evidence=_quote(answer.raw, secrets),
            next_step=_ADDRESS_ADVICE,
        )
    return answer.body


def as_object(raw: bytes) -> dict[str, Any] | None:
    """The JSON object in a body, None when it holds none."""
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_no_number)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _no_number(name: str) -> float:
    raise ValueError(f"{name} is no JSON")


def _quote(raw: bytes, secrets: Sequence[str]) -> str:
    text = tell(raw[: 4 * _LONGEST_TEXT].decode("utf-8", "replace"), secrets)
    return f"It begins with: {text[:120]}" if text else "It was empty."
