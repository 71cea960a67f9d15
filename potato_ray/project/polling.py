"""A question asked now and then in long loops: has somebody asked us to stop?"""

from __future__ import annotations

from collections.abc import Callable

from potato_ray.errors import Cancelled

EVERY = 1000


class StopPoll:
    """Call it once a record; it asks `should_stop` every EVERY calls and raises Cancelled on yes."""

    def __init__(self, should_stop: Callable[[], bool]) -> None:
        self._should_stop = should_stop
        self._calls = 0

    def __call__(self) -> None:
        self._calls += 1
        if self._calls % EVERY == 0:
            self.now()

    def now(self) -> None:
        """Ask at once. Raises Cancelled."""
        if self._should_stop():
            raise Cancelled("Building the training data was cancelled.")


def never() -> bool:
    """The should_stop of work that nobody can stop."""
    return False
