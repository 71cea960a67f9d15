"""Handlers of signals for a while."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def handled(numbers: Iterable[int], handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let `handler` have these signals for the length of a `with` block in the main thread.

    One that was ignored before (nohup, a shell's background job) stays ignored.
    """
    taken = [number for number in numbers if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in taken}
    try:
        yield
    finally:
        for number, handler_before in before.items():
            signal.signal(number, handler_before)
