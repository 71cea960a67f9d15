"""Minding the way to an agent on a host while its run is followed: lost connections are made again.

connected ── lost ─▶ try again, with growing pauses ─▶ connected, the socket forwarded again
    └────── the agent has ended ─▶ once more: another one, which takes the job up ─▶ `gone`
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Final

from potato_ray.backends.accompanied import Talk
from potato_ray.backends.host_agent import HostAgent
from potato_ray.errors import Cancelled, PotatoRayError
from potato_ray.ssh import SshFailed

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 0.2
ASK_EVERY_S: Final = 10.0
"""How often the host is asked whether the agent lives, where we do not hold its channel."""
SILENT_S: Final = 8.0
"""An agent that has been heard of since needs not be asked for; it reports every 5 s at the least."""
PAUSES_S: Final = (0.5, 1.0, 2.0, 4.0, 8.0)
"""Between two tries to connect; the last one from then on."""
MAX_RESTARTS: Final = 2
"""On end, of agents that were not heard of for long."""
STEADY_S: Final = 600.0
"""How long after a restart an agent has to be heard of for the count to begin anew.

Some hosts end long processes each night, and a run may take a week.
"""
MAX_FAILED_STARTS: Final = 3
"""Of an agent in the place of one that is known to be gone; what the host refuses now it may do then."""
STOPS_WITHIN_S: Final = 5.0
"""How long it may take to end before the connection is taken from it."""
SETTLE_S: Final = 3.0
"""How long the end that an agent has told may take to be seen here."""


class HostMinder:
    """Minds in a thread of its own, for the length of a `with` block. `is_over`: the run's end is here.

    `gone` says why no agent can bring the run to its end any more, `trouble` what went wrong last on the way
    to the host, "" once it was reached since. `silent_s`: for how long the agent has not been heard of.
    """

    def __init__(
        self,
        agent: HostAgent,
        talk: Talk,
        is_over: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
        silent_s: Callable[[], float] = lambda: math.inf,
    ) -> None:
        self.gone: PotatoRayError | None = None
        self.trouble = ""
        self._agent = agent
        self._talk = talk
        self._is_over = is_over
        self._clock = clock
        self._silent_s = silent_s
        self._attached = True
        self._restarts = 0
        self._restarted_at = self._seen_at = clock()
        self._failed_starts = 0
        self._asked_at = clock()
        self._thread = threading.Thread(target=self._mind, name="host-minder", daemon=True)

    def __enter__(self) -> HostMinder:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._talk.stop()
        self._thread.join(STOPS_WITHIN_S)
        if self._thread.is_alive():
            self._agent.connection.break_off()
            self._thread.join(STOPS_WITHIN_S)

    def _mind(self) -> None:
        while self.gone is None and not self._talk.wait(LOOK_EVERY_S):
            try:
                self._look()
            except Cancelled:
                return
            except Exception as failure:  # noqa: BLE001 - while its agent reports, a run is well
                self._meet(failure)

    def _meet(self, failure: Exception) -> None:
        """Tell of trouble, once for each text. The next look tries again."""
        words = _words(failure)
        if words != self.trouble:
            self.trouble = words
            logger.warning("%s: %s", self._agent.host, words)
            self._talk.log(words, "warning")

    def _look(self) -> None:
        if self._is_over():
            return
        if not self._agent.is_connected:
            self._connect_again()
        elif not self._attached:
            if self._is_time_to_ask():
                self._attach()
        elif self._is_time_to_ask():
            if not self._agent.has_ended(self._talk):
                self._seen_at = self._clock()
            elif not self._ends_well():
                self._start_again()

    def _is_time_to_ask(self) -> bool:
        if self._agent.holds_channel:
            return True
        now = self._clock()
        if now - self._asked_at < ASK_EVERY_S or (self._attached and self._silent_s() < SILENT_S):
            return False
        self._asked_at = now
        return True

    def _ends_well(self) -> bool:
        """Whether the end of the run comes to be here: an agent tells it and ends."""
        deadline = self._clock() + SETTLE_S
        while not self._is_over():
            if self._clock() >= deadline or self._talk.wait(LOOK_EVERY_S):
                return self._is_over() or self._talk.stopped()
        return True

    def _connect_again(self) -> None:
        why = self._agent.connection.why_lost()
        self._talk.log(f"the connection to {self._agent.host} was lost and is made again. {why}", "warning")
        tries = 0
        while not self._talk.wait(PAUSES_S[min(tries, len(PAUSES_S) - 1)]):
            tries += 1
            self._talk.step(f"connecting to {self._agent.host} again, try {tries}")
            try:
                self._agent.connect(self._talk)
                self._attach()
            except SshFailed as failure:
                self._meet(failure)
                continue
            self._talk.log(f"connected to {self._agent.host} again")
            return

    def _attach(self) -> None:
        """Reach the agent, or start one in the place of one that is gone; count where that is refused."""
        self._attached = False
        try:
            self._agent.attach(self._talk)
        except (SshFailed, Cancelled):
            raise
        except Exception as failure:
            self._failed_starts += self._agent.is_gone
            if self._failed_starts >= MAX_FAILED_STARTS:
                self.gone = failure if isinstance(failure, PotatoRayError) else _unexpected(failure)
            raise
        self._attached, self.trouble, self._failed_starts = True, "", 0

    def _start_again(self) -> None:
        words = self._agent.last_words()
        if self._was_steady():
            self._restarts = 0
        if self._restarts >= MAX_RESTARTS:
            self.gone = _ended(self._agent.host, words)
            return
        self._restarts += 1
        self._restarted_at = self._clock()
        self._talk.log(
            f"the agent on {self._agent.host} has ended before the run; it is started again", "warning"
        )
        self._attach()

    def _was_steady(self) -> bool:
        """Whether the agent that has ended was heard of, or seen to live, long after its start."""
        heard_at = max(self._seen_at, self._clock() - self._silent_s())
        return heard_at - self._restarted_at >= STEADY_S


def _words(failure: Exception) -> str:
    if isinstance(failure, PotatoRayError):
        return " ".join(part for part in (failure.message, failure.evidence) if part)
    return " ".join([f"{type(failure).__name__}:", *str(failure).splitlines()[:1]])


def _unexpected(failure: Exception) -> PotatoRayError:
    return PotatoRayError(
        "The agent of the run is gone, and no other could be started.",
        code="backend_failed",
        evidence=_words(failure),
        next_step="Look at agent.log in the run's folder and at the server's log, then start the run again.",
    )


def _ended(host: str, words: str) -> PotatoRayError:
    return PotatoRayError(
        f"The agent on {host} ended before the run did, again and again.",
        code="backend_failed",
        evidence=words[-2000:],
        next_step="Look at agent.log in the run's folder, and at what ends processes on that host.",
    )
