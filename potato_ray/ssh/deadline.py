"""A time by which something has to be there."""

from __future__ import annotations

import time


class Deadline:
    """Begins with its construction; `timeout_s` in seconds of the monotonic clock."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._ends_at = time.monotonic() + timeout_s

    @property
    def left_s(self) -> float:
        """Seconds that are left, never below zero."""
        return max(0.0, self._ends_at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether nothing is left."""
        return self.left_s == 0.0
