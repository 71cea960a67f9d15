"""Requests at a steady rate over one connection, and how long each took.

A request is due at its time whether the one before is answered or not: one slow answer makes those behind
it late, and that counts as their time too, as it would for the people who sent them.
"""

from __future__ import annotations

import http.client
import json
import math
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Answered:
    """One request: when it was due, sent and answered in full (seconds of time.monotonic)."""

    due: float
    sent: float
    done: float
    status: int
    body: bytes

    @property
    def took_ms(self) -> float:
        """Milliseconds since it was due."""
        return 1000 * (self.done - self.due)

    def json(self) -> dict[str, Any]:
        return dict(json.loads(self.body))


class SteadyRequests:
    """Sends from the beginning of a `with` block to its end; `answers` are those so far."""

    def __init__(
        self,
        url: str,
        path: str,
        headers: Mapping[str, str],
        rate_hz: float,
        method: str = "GET",
        body: bytes | None = None,
    ) -> None:
        place = urlsplit(url)
        self.rate_hz = rate_hz
        self.answers: list[Answered] = []
        self.failure: Exception | None = None
        self._http = http.client.HTTPConnection(str(place.hostname), place.port, timeout=TIMEOUT_S)
        self._request = (method, path, body, {**headers, "Content-Type": "application/json"})
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self.late_ms: list[float] = []
        """How late a thread wakes that only sleeps, at the same rate: what the machine itself adds."""
        self._metronome = threading.Thread(target=self._beat, daemon=True)

    def _send_all(self) -> None:
        try:
            due = time.monotonic()
            while not self._over.wait(max(0.0, due - time.monotonic())):
                self.answers.append(self._send(due))
                due += 1 / self.rate_hz
        except Exception as failure:  # noqa: BLE001 - raised at the end of the block
            self.failure = failure

    def _beat(self) -> None:
        due = time.monotonic()
        while not self._over.wait(max(0.0, due - time.monotonic())):
            self.late_ms.append(1000 * (time.monotonic() - due))
            due = max(due + 1 / self.rate_hz, time.monotonic())

    def _send(self, due: float) -> Answered:
        sent = time.monotonic()
        self._http.request(*self._request)
        answer = self._http.getresponse()
        body = answer.read()
        return Answered(due, sent, time.monotonic(), answer.status, body)

    def __enter__(self) -> SteadyRequests:
        self._thread.start()
        self._metronome.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join(TIMEOUT_S)
        self._metronome.join(TIMEOUT_S)
        self._http.close()
        if self.failure is not None and kind is None:
            raise self.failure


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least `share` (0..1) of all do not exceed."""
    return sorted(values)[max(0, math.ceil(share * len(values)) - 1)]


def in_words(took_ms: Sequence[float]) -> str:
    """`1,204 requests: p50 2.1, p99 8.0, max 14.2 ms`."""
    if not took_ms:
        return "no requests"
    p50, p99 = percentile(took_ms, 0.5), percentile(took_ms, 0.99)
    return f"{len(took_ms):,} requests: p50 {p50:.1f}, p99 {p99:.1f}, max {max(took_ms):.1f} ms"
