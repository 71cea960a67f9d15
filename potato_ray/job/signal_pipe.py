"""Signals as something to wait for: a child's end or a SIGTERM wakes the waiting process at once."""

from __future__ import annotations

import os
import select
import signal
from typing import Any, Sequence

_ENDINGS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class SignalPipe:
    """Takes over SIGCHLD and the signals that ask a launcher to end; one per process."""

    def __init__(self) -> None:
        self.terminated = False
        self._reader, writer = os.pipe()
        os.set_blocking(self._reader, False)
        os.set_blocking(writer, False)
        signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _ENDINGS:
            signal.signal(number, self._note)

    def wait(self, timeout_s: float, others: Sequence[Any] = ()) -> list[Any]:
        """Sleep until a signal, the timeout, or one of `others` is readable; returns those that are."""
        ready = select.select([self._reader, *others], [], [], timeout_s)[0]
        if self._reader in ready:
            ready.remove(self._reader)
            self._drain()
        return ready

    def _note(self, *_: Any) -> None:
        self.terminated = True

    def _drain(self) -> None:
        try:
            while os.read(self._reader, 512):
                pass
        except BlockingIOError:
            pass
