"""What a trainer says while it works, as lines of events.jsonl; and how a stop reaches it."""

from __future__ import annotations

import signal
import time
from typing import Any, Callable

from potato_ray.job.event_log import EventLog
from potato_ray.trainers.base import Reporter

PROGRESS_EVERY_S = 0.1


class Stopped(BaseException):
    """The worker was told to stop.

    No Exception, so that a trainer's own error handling does not swallow it.
    """


class StopSignal:
    """Turns the first SIGTERM into Stopped, raised wherever the main thread is in Python code."""

    def __init__(self) -> None:
        self.received = False

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._raise)
        # The launcher decides about a Ctrl-C in its terminal.
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    def check(self) -> None:
        """Raise Stopped when the signal has come: a trainer may have lost the first one on its way."""
        if self.received:
            raise Stopped

    def _raise(self, *_: Any) -> None:
        if not self.received:
            self.received = True
            raise Stopped


class JobReporter(Reporter):
    """Writes each call as an event; progress at most ten times a second."""

    def __init__(self, log: EventLog, stop: StopSignal, clock: Callable[[], float] = time.monotonic) -> None:
        self._log = log
        self._stop = stop
        self._clock = clock
        self._next_progress = 0.0

    def status(self, phase: str, step: str = "") -> None:
        self._next_progress = 0.0
        self._write("status", phase=phase, step=step)

    def progress(self, current: float, total: float, eta_s: float | None = None) -> None:
        now = self._clock()
        if now >= self._next_progress or current >= total:
            self._next_progress = now + PROGRESS_EVERY_S
            self._write("progress", current=current, total=total, eta_s=eta_s)

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        self._write("metric", name=name, value=value, step=step)

    def log(self, message: str, level: str = "info") -> None:
        self._write("log", level="warning" if level != "info" else "info", message=message)

    def _write(self, event: str, **fields: Any) -> None:
        self._stop.check()
        self._log.write(event, **fields)
