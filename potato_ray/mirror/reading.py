"""Bodies of agents, read so that nothing in them can harm who reads the mirror later.

What a trainer may have said by accident is made harmless and kept: NaN and infinity become null, halves of
characters `?`, long texts are cut. What no honest agent sends is refused: no JSON, no end of nesting, a
field of another type.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from potato_ray.agent.protocol import MAX_EVENTS
from potato_ray.job.event_log import clean
from potato_ray.job.folder import REASONS, Exit
from potato_ray.mirror.refusals import Malformed

MAX_NOTES = 100
MAX_LOG_CHARS = 256 * 1024
"""Of stderr_tail and agent_log: their ends are kept."""
MAX_NUMBER = 2**53 - 1
MOST_LEVELS = 100
"""Of lists and objects in one another; no honest agent needs ten."""
_SHORT = 4096
_NOTE_FIELDS = {"step": ("step",), "log": ("level", "message")}
_LEVELS = ("info", "warning")


@dataclass(frozen=True)
class Progress:
    """A progress report: events and notes as lines of ASCII JSON, without their ends."""

    first_seq: int
    events: tuple[bytes, ...] = ()
    notes: tuple[bytes, ...] = ()
    alive: bool = False


@dataclass(frozen=True)
class Failure:
    """Why an agent could not run a job."""

    code: str
    message: str
    next_step: str = ""


@dataclass(frozen=True)
class Result:
    """The end of a job as its agent tells it; see protocol and docs/agent-protocol.md."""

    exit: Exit | None
    next_seq: int
    artifact_uri: str = ""
    stderr_tail: str = ""
    agent_log: str = ""
    failure: Failure | None = None

    @property
    def is_success(self) -> bool:
        """Whether the worker ended well, so that there have to be predictions."""
        end = self.exit
        return (
            end is not None and self.failure is None and (end.code, end.signal, end.reason) == (0, None, "")
        )


def as_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body. Raises Malformed."""
    try:
        body = json.loads(raw.decode("utf-8"), parse_constant=_nothing, parse_int=_integer)
    except UnicodeDecodeError as error:
        raise _malformed("The body is no UTF-8 text.", f"Byte {error.start} is not.") from None
    except RecursionError:
        raise _malformed("The body is nested too deeply.") from None
    except ValueError as error:
        raise _malformed("The body is no JSON.", f"{error}.") from None
    if not isinstance(body, dict):
        raise _malformed("The body is no JSON object.")
    if _is_deep(body):
        raise _malformed("The body is nested too deeply.")
    return body


def _is_deep(body: Any) -> bool:
    """Whether it has more than MOST_LEVELS; how many Python itself reads depends on its version."""
    level = [body]
    for _ in range(MOST_LEVELS):
        level = [part for whole in level for part in _parts(whole) if isinstance(part, dict | list)]
        if not level:
            return False
    return True


def _parts(whole: Any) -> Iterable[Any]:
    return whole.values() if isinstance(whole, dict) else whole


def progress_of(body: Mapping[str, Any]) -> Progress:
    """The report in a body. Raises Malformed."""
    events = _listed(body, "events", MAX_EVENTS)
    notes = _listed(body, "notes", MAX_NOTES)
    alive = body.get("alive", False)
    if not isinstance(alive, bool):
        raise _malformed("The field alive is neither true nor false.")
    return Progress(
        _natural(body, "first_seq"),
        tuple(_line(each) for each in events),
        tuple(_line(_note(each)) for each in notes),
        alive,
    )


def result_of(body: Mapping[str, Any]) -> Result:
    """The result in a body. Raises Malformed."""
    end, failure = body.get("exit"), body.get("failure")
    return Result(
        None if end is None else _exit(end),
        _natural(body, "next_seq"),
        _text(body, "artifact_uri")[:_SHORT],
        _text(body, "stderr_tail")[-MAX_LOG_CHARS:],
        _text(body, "agent_log")[-MAX_LOG_CHARS:],
        None if failure is None else _failure(failure),
    )


def _exit(end: Any) -> Exit:
    if not isinstance(end, Mapping):
        raise _malformed("The field exit is neither an object nor null.")
    reason = _text(end, "reason")
    if reason and reason not in REASONS:
        raise _malformed("The field exit.reason is none that there is.", f"They are {', '.join(REASONS)}.")
    times = {name: _finite(end.get(name)) for name in ("peak_rss_mb", "started_at", "ended_at")}
    return Exit(
        _code(end, "code"), _code(end, "signal"), reason, detail=_text(end, "detail")[:_SHORT], **times
    )


def _failure(failure: Any) -> Failure:
    if not isinstance(failure, Mapping):
        raise _malformed("The field failure is neither an object nor null.")
    code, message, next_step = (_text(failure, name)[:_SHORT] for name in ("code", "message", "next_step"))
    if not code or not message:
        raise _malformed("The field failure names no code or no message.")
    return Failure(code, message, next_step)


def _note(note: Any) -> dict[str, Any]:
    kind = note.get("kind") if isinstance(note, Mapping) else None
    if not isinstance(kind, str) or kind not in _NOTE_FIELDS:
        raise _malformed("A note is of no kind that there is.", "They are step and log.")
    fields = {name: _text(note, name) for name in _NOTE_FIELDS[kind]}
    if kind == "log" and fields["level"] not in _LEVELS:
        fields["level"] = _LEVELS[-1]
    return {"kind": kind, **fields}


def _line(value: Any) -> bytes:
    """A value as one line. What is no event is kept as it is: whoever reads events makes a warning of it."""
    try:
        said = clean(value)
    except RecursionError:
        raise _malformed("The body is nested too deeply.") from None
    return json.dumps(said, ensure_ascii=True, allow_nan=False, separators=(",", ":")).encode("ascii")


def _listed(body: Mapping[str, Any], name: str, most: int) -> list[Any]:
    value = body.get(name, [])
    if not isinstance(value, list):
        raise _malformed(f"The field {name} is no list.")
    if len(value) > most:
        raise _malformed(f"The field {name} is too long.", f"A request takes {most}.")
    return value


def _natural(body: Mapping[str, Any], name: str) -> int:
    value = body.get(name)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= MAX_NUMBER:
        raise _malformed(f"The field {name} is no number of events.")
    return value


def _code(body: Mapping[str, Any], name: str) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > 2**31:
        raise _malformed(f"The field exit.{name} is neither a small number nor null.")
    return value


def _text(body: Mapping[str, Any], name: str) -> str:
    value = body.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise _malformed(f"The field {name} is no text.")
    return value.encode("utf-8", "replace").decode("utf-8").replace("\0", "?")


def _finite(value: Any) -> float:
    usable = isinstance(value, (int, float)) and math.isfinite(value)
    return float(value) if usable and 0 <= value < 1e12 else 0.0


def _nothing(name: str) -> None:
    return None


def _integer(digits: str) -> int | float:
    """As most programs keep a number: one that is beyond exact is near enough, one beyond all is infinite."""
    return int(digits) if len(digits) < 16 else _large(digits)


def _large(digits: str) -> int | float:
    value = float(digits)
    return int(digits) if abs(value) <= MAX_NUMBER else value


def _malformed(message: str, evidence: str = "") -> Malformed:
    return Malformed(
        message,
        evidence=evidence,
        next_step="Send it as docs/agent-protocol.md has it; the same body would be refused again.",
    )
