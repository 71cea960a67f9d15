"""A clock that tests move."""

from __future__ import annotations

from collections.abc import Callable

NOW = 1_795_955_098.5
"""29 November 2026, in epoch seconds UTC."""


class Clock:
    """Seconds that pass only when a test says so, or by sleeping. Calling it tells the time."""

    def __init__(self, now: float = NOW) -> None:
        self.now = now
        self._due: list[tuple[float, Callable[[], None]]] = []

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Let time pass, and happen what is due by then."""
        self.now += seconds
        due = [happens for at, happens in self._due if at <= self.now]
        self._due = [each for each in self._due if each[0] > self.now]
        for happens in due:
            happens()

    def after(self, seconds: float, happens: Callable[[], None]) -> None:
        """Let something happen when so much time will have been slept."""
        self._due.append((self.now + seconds, happens))
