"""Following a run to its end: by the server's stream where that works, else by asking.

The stream tells the status of the project each time that it changes. Where our run is in it, that is
what the run is doing; where it is not, the run is asked for, and that answer alone says that it ended.
So nothing is lost when the stream breaks, is repeated, or is not let through by a proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from math import inf
from typing import Any

from potato_ray.client import calls
from potato_ray.client.answers import failure_of, json_of, require
from potato_ray.client.effects import Flow, close, open_, pause, read
from potato_ray.client.failures import ClientError, ProtocolError, ServerUnavailable, WaitTimedOut
from potato_ray.client.patience import Patience
from potato_ray.client.records import RunRecord
from potato_ray.client.server_events import EventReader

POLL_S = 0.5
STREAM_AGAIN_S = 1.0
NO_STREAM_AGAIN_S = 60.0
NEEDED_FOR_STREAM_S = calls.SILENCE_S + 15.0
"""A shorter wait asks: a silent stream would be noticed too late."""

_OF_STATUS = frozenset({each.name for each in fields(RunRecord)}) - {"more", "run_id"}

Watcher = Callable[[RunRecord], None]


def refresh(run_id: str, patience: Patience) -> Flow[RunRecord]:
    """The run as it is now."""
    answer = yield from patience.insist(calls.run(run_id))
    return RunRecord.from_json(json_of(answer))


@dataclass
class Following:
    """One wait for the end of a run; `watch` is told whatever changes."""

    run_id: str
    patience: Patience
    timeout_s: float | None
    watch: Watcher

    def to_end(self) -> Flow[RunRecord]:
        """The ended run. Raises WaitTimedOut, ServerUnavailable when patience ends, what `watch` raises."""
        began = self.patience.clock()
        self._deadline = inf if self.timeout_s is None else began + self.timeout_s
        self._stream_at = began
        self._events = EventReader()
        self._record = RunRecord(self.run_id)
        self._seen = ""
        yield from self._ask()
        while not self._record.ended:
            if self._stream_is_due():
                yield from self._listen()
            else:
                yield from pause(min(POLL_S, self._left_s()))
            yield from self._ask()
        return self._record

    def _left_s(self) -> float:
        """Seconds until the deadline. Raises WaitTimedOut."""
        left_s = self._until_deadline_s()
        if left_s <= 0:
            raise WaitTimedOut(
                f"Run {self.run_id} has not ended within {self.timeout_s:g} s.",
                evidence=self._seen,
                next_step="It goes on; wait again, or cancel it.",
            )
        return left_s

    def _until_deadline_s(self) -> float:
        return max(0.0, self._deadline - self.patience.clock())

    def _stream_is_due(self) -> bool:
        return self.patience.clock() >= self._stream_at and self._left_s() > NEEDED_FOR_STREAM_S

    def _ask(self) -> Flow[None]:
        """See how it stands. A server that is away is waited for no longer than until the deadline."""
        left_s = self._until_deadline_s()
        patience = replace(self.patience, until=self._deadline)
        try:
            record = yield from refresh(self.run_id, patience)
        except ServerUnavailable as away:
            if left_s >= patience.limit_s:
                raise
            self._seen = f"{away.message} {away.evidence}".strip()
            yield from pause(self._until_deadline_s())
        else:
            self._see(record)
        finally:
            self.patience.was_there |= patience.was_there

    def _see(self, record: RunRecord) -> None:
        self._seen = f"It is {record.step_line}."
        if record != self._record:
            self._record = record
            self.watch(record)

    def _listen(self) -> Flow[None]:
        """Follow the stream until it breaks or no longer tells of our run."""
        again_s = yield from self._tried(self._opened())
        while again_s is None and self._until_deadline_s() > calls.SILENCE_S:
            self._heard: list[dict[str, Any]] = []
            again_s = yield from self._tried(self._hear())
            # Not within `_tried`: what `watch` raises is no fault of the stream.
            for said in self._heard:
                self._see(replace(self._record, **said))
        self._events.cut()
        yield from close()
        self._stream_at = self.patience.clock() + (again_s or STREAM_AGAIN_S)

    def _tried(self, part: Flow[bool]) -> Flow[float | None]:
        """None while the stream goes on, else the seconds until it is worth another try."""
        try:
            return None if (yield from part) else STREAM_AGAIN_S
        except ServerUnavailable:
            return STREAM_AGAIN_S
        except ClientError:
            return NO_STREAM_AGAIN_S  # a proxy that does not let it through

    def _opened(self) -> Flow[bool]:
        answer = yield from open_(calls.stream(self.run_id, self._events.last_id))
        failure = failure_of(answer)
        if failure is not None:
            raise failure
        require(answer, calls.EVENT_STREAM)
        return True

    def _hear(self) -> Flow[bool]:
        """Take in what the next piece says of our run; False when there is none, or it says nothing of it."""
        piece = yield from read()
        for event in self._events.add(piece or b""):
            if event.event != "status":
                continue
            said = _said_of(self.run_id, event.json())
            if said is None:
                return False
            self._heard.append(said)
        return piece is not None


def _said_of(run_id: str, status: object) -> dict[str, Any] | None:
    """The fields of a run in a status; None when it is neither under way nor waiting."""
    if not isinstance(status, Mapping):
        raise ProtocolError("The stream's status is no object.")
    for run in status.get("runs") or ():
        record = RunRecord.from_json(run)
        if record.run_id == run_id:
            return {**{name: getattr(record, name) for name in run if name in _OF_STATUS}, "position": 0}
    for run in status.get("queue") or ():
        record = RunRecord.from_json(run)
        if record.run_id == run_id:
            return {"status": "queued", "position": record.position}
    return None
