"""A job's events in portions that one progress request can hold."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from typing import Any

from potato_ray.agent.protocol import MAX_EVENTS, MAX_PROGRESS_BYTES
from potato_ray.job.event_log import clean
from potato_ray.job.events import VERSION
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import Follower

ROOM_BYTES = 64 * 1024
"""Of a request, for what goes with the events."""
USUAL_BYTES = 256 * 1024
"""Of a batch; one event that is larger goes alone."""
LEAST_BYTES = 4 * 1024
"""Of a batch on a link that carries no more at a time."""


@dataclass(frozen=True)
class Batch:
    """Events in order; the first one has the number `first_seq`."""

    first_seq: int
    events: list[dict[str, Any]] = field(default_factory=list)


class Batches:
    """Reads events.jsonl from where the server is. The same batch comes until `go_to` moves on.

    `most_bytes` is for one event, `usual_bytes` for several.
    """

    def __init__(
        self,
        folder: JobFolder,
        most_events: int = MAX_EVENTS,
        most_bytes: int = MAX_PROGRESS_BYTES - ROOM_BYTES,
        usual_bytes: int = USUAL_BYTES,
    ) -> None:
        self._folder = folder
        self._follower = Follower(folder)
        self._most_events = self._all_events = most_events
        self._most_bytes = most_bytes
        self._now_bytes = self._usual_bytes = min(usual_bytes, most_bytes)
        self._n_sent = self._sent_bytes = 0
        self._first_seq = 0
        self._replaced = -1
        self._waiting: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def next(self) -> Batch:
        """The next events that the server lacks; none when there are none yet."""
        with self._lock:
            self._fill()
            self._sent_bytes = 0
            events: list[dict[str, Any]] = []
            for event in self._waiting[: self._most_events]:
                size = self._sent_bytes + len(json.dumps(event)) + 2
                if size > self._now_bytes and events:
                    break
                events.append(event)
                self._sent_bytes = size
            self._n_sent = len(events)
            return Batch(self._first_seq, events)

    def go_to(self, seq: int) -> None:
        """The server has all events before this number, and lacks those from it on."""
        with self._lock:
            known = seq - self._first_seq
            if 0 <= known <= len(self._waiting):
                if known:
                    self._most_events = self._all_events
                del self._waiting[:known]
            else:
                self._follower = Follower(self._folder, first_seq=seq)
                self._waiting = []
            self._first_seq = seq

    def make_smaller(self, why: str) -> bool:
        """The server cannot read this batch: send half as many; a single one is replaced by a warning.

        False when that warning was refused as well.
        """
        with self._lock:
            n_sent = min(self._most_events, self._n_sent, len(self._waiting))
            if n_sent > 1:
                self._most_events = n_sent // 2
                return True
            if not self._waiting or self._replaced == self._first_seq:
                return False
            name = self._waiting[0].get("event")
            self._waiting[0] = _warning(f"An event ({name}) was left out, which the server refused: {why}")
            self._replaced = self._first_seq
            return True

    def make_lighter(self) -> None:
        """The last batch did not get through: send half as many bytes at a time.

        A small one failed for another reason than its size.
        """
        with self._lock:
            if self._sent_bytes > LEAST_BYTES:
                self._now_bytes = max(LEAST_BYTES, min(self._now_bytes, self._sent_bytes) // 2)

    def make_heavier(self) -> None:
        """The last batch got through quickly: send up to twice as many bytes at a time."""
        with self._lock:
            self._now_bytes = min(self._usual_bytes, 2 * self._now_bytes)

    def _fill(self) -> None:
        lacking = self._most_events - len(self._waiting)
        if lacking > 0:
            self._waiting += [self._fit(event) for event in self._follower.poll(lacking)]

    def _fit(self, event: dict[str, Any]) -> dict[str, Any]:
        fit: dict[str, Any] = clean(event)
        size = len(json.dumps(fit))
        if size <= self._most_bytes:
            return fit
        return _warning(
            f"An event ({event.get('event')}) of {size} bytes was left out: it is too large to send."
        )


def _warning(words: str) -> dict[str, Any]:
    return {"v": VERSION, "event": "log", "t": time.time(), "level": "warning", "message": words}
