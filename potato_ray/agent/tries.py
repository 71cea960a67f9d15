"""Tries to tell a server that is there the end of a job, and that it does not take."""

from __future__ import annotations

from typing import Callable

from potato_ray.agent.errors import Refused

BARRED = frozenset({401, 404})
"""A wrong token or address: nothing is said of the job. (A 404 that ends the run is not counted here.)"""


class TriesInVain:
    """Those since the last progress. `most`: after so many, time counts; `clock` is monotonic seconds."""

    def __init__(self, most: int, clock: Callable[[], float]) -> None:
        self.barred = False
        """Whether the last try failed for the token or the address, as if the server were away."""
        self._most = most
        self._clock = clock
        self._n = 0
        self._since = 0.0

    def count(self, failure: Exception, was_heard: bool) -> None:
        """Count a try that failed, if the server is there: it refused, or `was_heard` meanwhile."""
        barred = isinstance(failure, Refused) and failure.status in BARRED
        if barred is not self.barred:
            self._n = 0
        self.barred = barred
        if isinstance(failure, Refused) or was_heard:
            self._since = self._since if self._n else self._clock()
            self._n += 1

    def progress(self) -> None:
        """Something has got through, or is told in another way from now on."""
        self._n = 0

    def are_enough(self, patience_s: float) -> bool:
        """Whether there were many, over that long."""
        return self._n >= self._most and self._clock() - self._since >= patience_s
