"""SIGTERM and SIGHUP while a run is followed: the project is given back cleanly, the run goes on."""

from __future__ import annotations

import signal
import threading
import time
from contextlib import ExitStack
from types import FrameType, TracebackType
from typing import Final

from potato_ray.signals import handled

SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class Terminated(KeyboardInterrupt):
    """This process was told to end by one of SIGNALS.

    Ray lets nothing but a KeyboardInterrupt out of a call that waits, and hands on a plain one, so
    whoever catches that asks `Termination.check` what it was.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number

    @property
    def exit_code(self) -> int:
        """What a shell reports of a process that a signal has ended."""
        return 128 + self.number


class Termination:
    """Raises Terminated in the main thread when a signal comes, for the length of a `with` block.

    A second signal changes nothing: the first one's clean-up is bounded in time. A signal that was
    ignored before (nohup) stays ignored. In other threads than the main one it does nothing.
    """

    def __init__(self) -> None:
        self.received = 0
        self._handled = ExitStack()

    def check(self) -> None:
        """Raise Terminated when a signal has come, even one whose exception got lost on its way."""
        if self.received:
            raise Terminated(self.received)

    def sleep(self, seconds: float) -> None:
        """Sleep; raises Terminated as `check` does."""
        self.check()
        time.sleep(seconds)

    def __enter__(self) -> Termination:
        if threading.current_thread() is threading.main_thread():
            self._handled.enter_context(handled(SIGNALS, self._take))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handled.close()
        if isinstance(error, KeyboardInterrupt) and not isinstance(error, Terminated):
            self.check()

    def _take(self, number: int, frame: FrameType | None) -> None:
        if not self.received:
            self.received = number
            raise Terminated(number)
