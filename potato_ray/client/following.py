"""Following a run to its end: by the server's stream where that works, else by asking.

The stream tells the status of the project each time that it changes. Where our run is in it, that is
what the run is doing; where it is not, the run is asked for, and that answer alone says that it ended.
So nothing is lost when the stream breaks, is repeated, or is not let through by a proxy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from potato_ray.client import calls
from potato_ray.client.answers import failure_of, json_of, require
from potato_ray.client.effects import Flow, close, open_, pause, read
from potato_ray.client.failures import ClientError, ProtocolError, ServerUnavailable, WaitTimedOut
from potato_ray.client.patience import Patience
from potato_ray.client.records import RunRecord
from potato_ray.client.server_events import EventReader, ServerEvent

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
        """The ended run. Raises WaitTimedOut, and ServerUnavailable when patience is at its end."""
        began = self.patience.clock()
        self._deadline = None if self.timeout_s is None else began + self.timeout_s
        self._stream_at = began
        self._events = EventReader()
        self._record = RunRecord(self.run_id)
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
        if self._deadline is None:
            return float("inf")
        left_s = self._deadline - self.patience.clock()
        if left_s <= 0:
            raise WaitTimedOut(
                f"Run {self.run_id} has not ended within {self.timeout_s:g} s.",
                evidence=f"It is {self._record.step_line}.",
                next_step="It goes on; wait again, or cancel it.",
            )
        return left_s

    def _stream_is_due(self) -> bool:
        return self.patience.clock() >= self._stream_at and self._left_s() > NEEDED_FOR_STREAM_S

    def _ask(self) -> Flow[None]:
        self._see((yield from refresh(self.run_id, self.patience)))

    def _see(self, record: RunRecord) -> None:
        if record != self._record:
            self._record = record
            self.watch(record)

    def _listen(self) -> Flow[None]:
        """Follow the stream until it breaks or no longer tells of our run."""
        try:
            yield from self._heard()
            again_s = STREAM_AGAIN_S
        except ServerUnavailable:
            again_s = STREAM_AGAIN_S
        except ClientError:
            again_s = NO_STREAM_AGAIN_S  # a proxy that does not let it through
        self._events.cut()
        yield from close()
        self._stream_at = self.patience.clock() + again_s

    def _heard(self) -> Flow[None]:
        answer = yield from open_(calls.stream(self.run_id, self._events.last_id))
        failure = failure_of(answer)
        if failure is not None:
            raise failure
        require(answer, calls.EVENT_STREAM)
        while (piece := (yield from read())) is not None:
            for event in self._events.add(piece):
                if not self._tells_of_us(event):
                    return
            if self._left_s() <= calls.SILENCE_S:
                return

    def _tells_of_us(self, event: ServerEvent) -> bool:
        """Take in what the status says of our run; False when it says nothing any more."""
        if event.event != "status":
            return True
        said = _said_of(self.run_id, event.json())
        if said is None:
            return False
        self._see(replace(self._record, **said))
        return True


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
