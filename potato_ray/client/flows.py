"""The API's operations as flows: what is sent, how often, and what the answers are read as."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TypeVar

from potato_ray import errors
from potato_ray.client import calls
from potato_ray.client.answers import json_of, list_of, not_ours, parsed, require
from potato_ray.client.calls import Call
from potato_ray.client.effects import Flow, Show, pause, read
from potato_ray.client.failures import ProtocolError, ServerUnavailable
from potato_ray.client.following import refresh
from potato_ray.client.patience import Patience
from potato_ray.client.records import Event, Prediction, Record, RunRecord, StartAnswer
from potato_ray.client.server_events import Lines

R = TypeVar("R", bound=Record)

PAGE = 200
FOLLOW_EVERY_S = 1.0


def one(kind: type[R], call: Call, patience: Patience) -> Flow[R]:
    """The record that a call answers."""
    answer = yield from patience.insist(call)
    return kind.from_json(json_of(answer))


def several(kind: type[R], call: Call, name: str, patience: Patience) -> Flow[list[R]]:
    """The records under `name` in the answer of a call."""
    answer = yield from patience.insist(call)
    return [kind.from_json(body) for body in list_of(answer, name)]


def plain(call: Call, patience: Patience) -> Flow[dict[str, object]]:
    """The JSON object that a call answers."""
    answer = yield from patience.insist(call)
    body = json_of(answer)
    if not isinstance(body, Mapping):
        raise not_ours(answer, "a JSON object")
    return dict(body)


def text(call: Call, patience: Patience) -> Flow[str]:
    """The plain text that a call answers, however long."""
    answer = yield from patience.insist_open(call)
    require(answer, call.accept)
    pieces = []
    while (piece := (yield from read())) is not None:
        pieces.append(piece)
    return b"".join(pieces).decode("utf-8", "replace")


def started(call: Call, patience: Patience) -> Flow[RunRecord]:
    """A run that has just been started."""
    answer = yield from one(StartAnswer, call, patience)
    wanted = call.body or {}
    schemas = wanted.get("schemas", ())
    return RunRecord(
        answer.run_id,
        trainer=str(wanted.get("trainer", "")),
        schemas=(schemas,) if isinstance(schemas, str) else tuple(schemas),
        params=wanted.get("params", {}),
        backend=str(wanted.get("backend", "")),
        position=answer.position,
    )


def events(run_id: str, after: int, follow: bool, patience: Patience) -> Flow[None]:
    """Shows the events of a run in order, each once; with `follow` until the run has ended."""
    while True:
        # Asked before the events: those of its end are there when it has ended.
        ended = not follow or (yield from refresh(run_id, patience)).ended
        while True:
            page = yield from several(Event, calls.events(run_id, after, PAGE), "events", patience)
            fresh = [event for event in page if event.id > after]
            if not fresh:
                break
            for event in fresh:
                yield Show(event)
            after = fresh[-1].id
        if ended:
            return
        yield from pause(FOLLOW_EVERY_S)


def predictions(run_id: str, patience: Patience) -> Flow[None]:
    """Shows the stored predictions of a run while they come in."""
    answer = yield from patience.insist_open(calls.predictions(run_id))
    require(answer, calls.JSON_LINES)
    lines, shown = Lines(), 0
    while (piece := (yield from _next_piece(run_id, shown))) is not None:
        for line in lines.add(piece):
            yield Show(_prediction(line))
            shown += 1
    if lines.rest:
        yield Show(_prediction(lines.rest))


def _next_piece(run_id: str, shown: int) -> Flow[bytes | None]:
    try:
        return (yield from read())
    except ServerUnavailable as cut:
        raise ServerUnavailable(
            f"The predictions of run {run_id} broke off after {shown} of them.",
            code=cut.code,
            evidence=f"{cut.message} {cut.evidence}".strip(),
            next_step="Ask for them again: those that came are not all.",
        ) from None


def _prediction(line: bytes) -> Prediction:
    try:
        return Prediction.from_json(parsed(line))
    except ValueError:
        raise ProtocolError(
            "A line of the predictions is no JSON.",
            evidence=f"It begins with {line[:80].decode('utf-8', 'replace')!r}.",
            next_step="Ask for them again.",
        ) from None


def cancelled(record: RunRecord, patience: Patience) -> Flow[RunRecord]:
    """Cancel a run; the run as far as the answer tells: nothing more is asked, that could be lost."""
    answer = yield from plain(calls.cancel(record.run_id), patience)
    at_once = answer.get("cancelled") is True
    return replace(
        record,
        status="cancelled" if at_once else "cancelling",
        state=str(answer.get("state") or record.state),
        position=0,
    )


def withdrawn(run_id: str, patience: Patience) -> Flow[int]:
    """Withdraw the predictions of a run; how many pre-labels were taken off."""
    answer = yield from plain(calls.withdraw(run_id), patience)
    count = answer.get("withdrawn")
    return count if isinstance(count, int) else 0


def raise_failure(record: RunRecord) -> None:
    """Raise RunFailed or Cancelled for a run that has ended, but not as success."""
    if record.status == "success":
        return
    if record.status == "cancelled":
        raise errors.Cancelled(f"Run {record.run_id} was cancelled.", next_step="Start it again if need be.")
    raise errors.RunFailed(
        f"Run {record.run_id} ended as {record.status}" + (f": {record.error}" if record.error else "."),
        code=record.error_code or record.status,
        evidence=record.error_evidence,
        next_step=record.error_next_step or "Look at the run's log.",
    )
