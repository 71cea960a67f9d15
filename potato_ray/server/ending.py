"""How a server ends: SIGTERM and SIGHUP at once, Ctrl-C with a word about the runs that go on.

The handlers only note what came; the main thread takes one note after the other from the inbox.
"""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from queue import Empty, SimpleQueue
from types import FrameType
from typing import Any, Protocol

from potato_ray.errors import PotatoRayError
from potato_ray.registry.runs import Run
from potato_ray.signals import handled

STOPPED = 0
FAILED = 1
INTERRUPTED = 130
CANCEL_WINDOW_S = 5.0
AFTER_GRACE_S = 5.0
HOLD_WITHIN_S = 2.0
"""How long is waited for the controller to hold its queue before runs are named and cancelled."""
POLL_S = 0.1
BROKEN = 0
"""What the inbox gets, instead of a signal's number, when the server cannot go on."""

Inbox = SimpleQueue[int]


class Runs(Protocol):
    """What is known of runs: a RegistryReader."""

    def current(self) -> list[Run]: ...

    def run(self, run_id: str) -> Run: ...


def signals_into(inbox: Inbox) -> AbstractContextManager[None]:
    """Puts signals into the inbox, for the length of a `with` block in the main thread."""

    def note(number: int, frame: FrameType | None) -> None:
        inbox.put(number)  # the one queue that may be used in a handler

    return handled((signal.SIGTERM, signal.SIGHUP, signal.SIGINT), note)


class Ending:
    """Waits for the end of a server.

    `hold` lets no waiting run begin any more, `cancel` cancels one run, `outlook` says what becomes of one.
    """

    def __init__(
        self,
        inbox: Inbox,
        runs: Runs,
        *,
        hold: Callable[[], Any],
        cancel: Callable[[str], Any],
        outlook: Callable[[Run], str],
        tell: Callable[[str], None],
        grace_s: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._inbox = inbox
        self._runs = runs
        self._hold = hold
        self._cancel = cancel
        self._outlook = outlook
        self._tell = tell
        self._patience_s = grace_s + AFTER_GRACE_S
        self._clock = clock
        self._told: dict[str, str] = {}
        # In a thread: an answer takes long while the controller is restarted, and signals must be heard.
        self._holding = threading.Thread(target=self._hold_queue, daemon=True)

    def wait(self) -> int:
        """The exit code, once it is time to stop: 0 for SIGTERM and SIGHUP, 130 for Ctrl-C, 1 for trouble."""
        number = self._next(None)
        if number:
            self._holding.start()
        if number != signal.SIGINT:
            return self._stop(number)
        return self._interrupted()

    def _stop(self, number: int | None) -> int:
        if not number:
            return FAILED
        self._say_stopping(number)
        for run in self._current():
            self._tell(self._outlook_of(run))
        return STOPPED

    def tell_what_has_changed(self) -> None:
        """Once all has stopped: name again each run of which something else is to be said by now.

        Runs go on for the seconds that the end takes, and one that was building may train now.
        """
        for run_id, told in list(self._told.items()):
            with contextlib.suppress(PotatoRayError):
                outlook = self._outlook(self._runs.run(run_id))
                if outlook != told:
                    self._tell(outlook)

    def _outlook_of(self, run: Run) -> str:
        self._told[run.run_id] = self._outlook(run)
        return self._told[run.run_id]

    def _say_stopping(self, number: int) -> None:
        """Taking Ray down takes seconds, in which nobody should wonder."""
        self._tell(f"stopping at {signal.Signals(number).name}")

    def _interrupted(self) -> int:
        going_on = self._current()
        for run in going_on:
            self._tell(f"{self._outlook_of(run)}; Ctrl-C again within {CANCEL_WINDOW_S:.0f} s cancels it")
        number = None
        if going_on:
            self._tell(f"the server stops in {CANCEL_WINDOW_S:.0f} s")
            number = self._next(CANCEL_WINDOW_S)
        if number is None:
            self._say_stopping(signal.SIGINT)
            return INTERRUPTED
        return self._cancel_all(going_on) if number == signal.SIGINT else self._stop(number)

    def _cancel_all(self, named: Sequence[Run]) -> int:
        """Cancel all runs and wait for their ends; one more signal ends the waiting."""
        self._holding.join(HOLD_WITHIN_S)
        known = {run.run_id for run in named}
        # Some may have begun just before the queue was held.
        runs = [*named, *(run for run in self._current() if run.run_id not in known)]
        self._tell(f"cancelling {', '.join(run.run_id for run in runs)}; Ctrl-C again leaves at once")
        threading.Thread(target=self._cancel_each, args=(runs,), daemon=True).start()
        deadline = self._clock() + self._patience_s
        while self._clock() < deadline and not self._have_ended(runs):
            if self._next(POLL_S) is not None:
                break
        for run in runs:
            self._tell(self._outlook_of(self._again(run)))
        self._say_stopping(signal.SIGINT)
        return INTERRUPTED

    def _hold_queue(self) -> None:
        with contextlib.suppress(Exception):  # there is no controller that could start a run
            self._hold()

    def _cancel_each(self, runs: Sequence[Run]) -> None:
        self._holding.join(self._patience_s)  # the end of one would let the next one begin
        for run in runs:
            with contextlib.suppress(Exception):  # it has ended meanwhile, or Ray is going
                self._cancel(run.run_id)

    def _have_ended(self, runs: Sequence[Run]) -> bool:
        return all(self._again(run).ended for run in runs)

    def _again(self, run: Run) -> Run:
        try:
            return self._runs.run(run.run_id)
        except PotatoRayError:
            return run

    def _current(self) -> list[Run]:
        try:
            return self._runs.current()
        except PotatoRayError:
            return []  # the registry cannot be read; the server stops all the same

    def _next(self, timeout_s: float | None) -> int | None:
        try:
            return self._inbox.get(timeout=timeout_s)
        except Empty:
            return None
