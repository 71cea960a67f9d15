"""Work in a thread of its own, while people are told how far it is and a cancel is heard.

    work(talk) ── talk.step, talk.log ──▶ notes ─▶ sink ─▶ directive ── cancel or stale ──▶ talk.stopped()

For what takes its time on another machine: logging in, copying, building an environment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from potato_ray.backends.base import Directive, EventSink
from potato_ray.errors import PotatoRayError

T = TypeVar("T")

POLL_S: Final = 0.02
TELL_EVERY_S: Final = 0.5
LEAVE_AFTER_S: Final = 5.0
"""How long work that was asked to stop may take to do so before it is left alone."""


class Stopped(Exception):
    """The work was stopped: somebody cancelled the run, or another follower has it."""

    def __init__(self, directive: Directive) -> None:
        super().__init__("cancelled" if directive.cancel else "stale")
        self.directive = directive


class Talk:
    """What work says, and hears, while it is done; for any thread."""

    def __init__(self) -> None:
        self._notes: list[dict[str, Any]] = []
        self._lock = threading.Lock()
        self._stop = threading.Event()

    def step(self, step: str) -> None:
        """Set the step line. Of those that come too quickly the newest is told."""
        with self._lock:
            if self._notes and self._notes[-1]["kind"] == "step":
                self._notes.pop()
            self._notes.append({"kind": "step", "step": step})

    def log(self, message: str, level: str = "info") -> None:
        """Add a line to the run's log; `level` is info, warning or error."""
        with self._lock:
            self._notes.append({"kind": "log", "level": level, "message": message})

    def stopped(self) -> bool:
        """Whether the work is to end now."""
        return self._stop.is_set()

    def wait(self, seconds: float) -> bool:
        """Wait, unless the work is to end; whether it is."""
        return self._stop.wait(seconds)

    def stop(self) -> None:
        """Ask the work to end."""
        self._stop.set()

    def taken(self) -> list[dict[str, Any]]:
        """What was said since the last time."""
        with self._lock:
            notes, self._notes = self._notes, []
        return notes


class Accompanied(Generic[T]):
    """One piece of work. `next_seq` is the number of events that the sink has.

    `hears_cancel` False: a cancel does not stop it, for what is done behind a run that was cancelled.
    """

    def __init__(
        self,
        work: Callable[[Talk], T],
        sink: EventSink,
        next_seq: int,
        *,
        hears_cancel: bool = True,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._work = work
        self._sink = sink
        self._next_seq = next_seq
        self._hears_cancel = hears_cancel
        self._talk = Talk()
        self._clock = clock
        self._sleep = sleep
        self._answer: tuple[T] | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._do, name="accompanied", daemon=True)

    def run(self) -> T:
        """The work's answer. Raises what it raises, what the sink raises, and Stopped."""
        self._thread.start()
        told_at = float("-inf")
        while True:
            over = not self._thread.is_alive()
            notes = self._talk.taken()
            if notes or self._clock() - told_at >= TELL_EVERY_S:
                self._tell(notes)
                told_at = self._clock()
            if over:
                return self._result()
            self._sleep(POLL_S)

    def _tell(self, notes: list[dict[str, Any]]) -> None:
        try:
            directive = self._sink([], self._next_seq, notes)
        except BaseException:
            self._leave()
            raise
        if directive.stale or (directive.cancel and self._hears_cancel):
            self._leave()
            raise Stopped(directive)

    def _leave(self) -> None:
        self._talk.stop()
        self._thread.join(LEAVE_AFTER_S)

    def _do(self) -> None:
        try:
            self._answer = (self._work(self._talk),)
        except BaseException as failure:  # noqa: BLE001 - raised in the thread that waits
            self._failure = failure

    def _result(self) -> T:
        if self._failure is not None:
            raise self._failure
        if self._answer is None:
            raise PotatoRayError("The work ended without an answer.", code="backend_failed")
        return self._answer[0]
