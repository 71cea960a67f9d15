"""How long to wait before a request is tried again: longer each time, never in step with other agents."""

from __future__ import annotations

import random
import time
from typing import Callable, Protocol

from potato_ray.agent.errors import ServerUnreachable, Stopped

FIRST_S = 0.5
LONGEST_S = 30.0
MOST_ASKED_S = 300.0
"""The longest Retry-After that is kept to: a wrong one must not put an agent to sleep for days."""


class Stop(Protocol):
    """What ends waits; a threading.Event is one."""

    def is_set(self) -> bool:
        """Whether to stop."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait so many seconds at most; whether to stop."""


class Patience:
    """The waits between the tries of one series; `success` ends a series.

    `stop` ends every wait at once. `clock` is monotonic, `random_share` gives numbers from 0 to 1.
    """

    def __init__(
        self,
        stop: Stop,
        *,
        first_s: float = FIRST_S,
        longest_s: float = LONGEST_S,
        clock: Callable[[], float] = time.monotonic,
        random_share: Callable[[], float] = random.random,
    ) -> None:
        self._stop = stop
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        self._random_share = random_share
        self._failures = 0
        self._failing_since: float | None = None

    @property
    def failing_for_s(self) -> float:
        """Seconds since the first failure of this series; 0.0 while nothing has failed."""
        return 0.0 if self._failing_since is None else self._clock() - self._failing_since

    @property
    def failures(self) -> int:
        """Failures since the last success."""
        return self._failures

    def success(self) -> None:
        """The server has answered: the next wait is a short one again."""
        self._failures = 0
        self._failing_since = None

    def next_wait_s(self, retry_after_s: float | None = None) -> float:
        """Count one failure; seconds until the next try."""
        if self._failing_since is None:
            self._failing_since = self._clock()
        # The exponent is bounded: an agent may fail for weeks.
        longest = min(self._longest_s, self._first_s * 2.0 ** min(self._failures, 30))
        self._failures += 1
        # Between half of it and all: agents that lost the server together do not come back together.
        own = longest * (0.5 + 0.5 * self._random_share())
        return max(own, min(retry_after_s or 0.0, MOST_ASKED_S))

    def wait(self, failure: ServerUnreachable) -> None:
        """Count the failure and wait before the next try. Raises Stopped when `stop` is set meanwhile."""
        if self._stop.wait(self.next_wait_s(failure.retry_after_s)):
            raise Stopped("The agent was told to stop while it waited for the server.") from failure
