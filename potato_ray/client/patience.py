"""How long a server that is away is put up with, and what is repeated meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf

from potato_ray.client.answers import Answer, failure_of
from potato_ray.client.calls import Call
from potato_ray.client.effects import Flow, open_, pause, send
from potato_ray.client.failures import ClientError, ServerUnavailable

FIRST_PAUSE_S = 0.25
LONGEST_PAUSE_S = 8.0
LEAST_PAUSE_S = 0.001
ABSENT_S = 2.0
"""A server that has never been there, as at a wrong address, is not waited for any longer."""
LAST_ANSWER_S = 1.0
"""What an answer gets at the end: without it a run that has ended would not be seen to have."""


@dataclass
class Patience:
    """A server that went away is waited for `total_s` seconds, counted from the first failure.

    One for each client: it remembers whether the server has ever been there. At `until`, by the clock,
    it ends in any case, but for the LAST_ANSWER_S that an answer gets.
    """

    total_s: float
    clock: Callable[[], float] = time.monotonic
    was_there: bool = False
    until: float = inf

    @property
    def limit_s(self) -> float:
        """How long it is waited for as things stand."""
        return self.total_s if self.was_there else min(self.total_s, ABSENT_S)

    def insist(self, call: Call) -> Flow[Answer]:
        """The good answer to a call, which is repeated while the server is unavailable, if it may be."""
        return (yield from self._repeated(call, send))

    def insist_open(self, call: Call) -> Flow[Answer]:
        """As `insist`; the body is left to read."""
        return (yield from self._repeated(call, open_))

    def _repeated(self, call: Call, attempt: Callable[[Call], Flow[Answer]]) -> Flow[Answer]:
        waiting = Waiting(self)
        while True:
            try:
                answer = yield from attempt(self._in_time(call))
            except ServerUnavailable as unavailable:
                failure: ClientError | None = unavailable
                self.was_there |= unavailable.code != "server_unreachable"
            else:
                failure = failure_of(answer)
                self.was_there = True
            if failure is None:
                return answer
            if not isinstance(failure, ServerUnavailable) or not _may_repeat(call, failure):
                raise failure
            yield from waiting.pause(failure)

    def _in_time(self, call: Call) -> Call:
        if self.until == inf:
            return call
        return replace(call, at_most_s=max(LAST_ANSWER_S, self.until - self.clock()))


def _may_repeat(call: Call, failure: ServerUnavailable) -> bool:
    """A command that never reached the controller has done nothing yet.

    One that reached it and was not answered is controller_restarting: it may have been taken.
    """
    return call.repeatable or failure.code in ("controller_unavailable", "server_unreachable")


class Waiting:
    """One spell of waiting for a server that is away."""

    def __init__(self, patience: Patience) -> None:
        self._patience = patience
        self._since: float | None = None
        self._pause_s = FIRST_PAUSE_S

    def pause(self, failure: ServerUnavailable) -> Flow[None]:
        """Wait as long as the server asks for, or twice as long as last time; raises `failure` at the end.

        The last pause lasts as long as is left, so that the limit is used up and ends with one more try.
        """
        now = self._patience.clock()
        self._since = now if self._since is None else self._since
        left_s = self._since + self._patience.limit_s - now
        wait_s = self._pause_s if failure.retry_after_s is None else max(failure.retry_after_s, FIRST_PAUSE_S)
        wait_s = min(wait_s, left_s)
        if wait_s < LEAST_PAUSE_S or now + wait_s > self._patience.until:
            raise failure
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        yield from pause(wait_s)
