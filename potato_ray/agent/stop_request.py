"""How often the agent was told to stop: once, it finishes the job in hand; twice, it cancels that."""

from __future__ import annotations

import signal
import time
from typing import Any

from potato_ray.agent.voice import Voice

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
TICK_S = 0.1


class StopRequest:
    """Counts signals. The handler only counts: it may run between any two instructions."""

    def __init__(self) -> None:
        self.times = 0
        self.last_signal = 0

    def install(self) -> None:
        """Take over the signals that ask for an end. One that is ignored (nohup) stays so."""
        for number in SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._count)

    @property
    def finish(self) -> bool:
        """No further job is to begin."""
        return self.times >= 1

    @property
    def cancel(self) -> bool:
        """The job in hand is to be cancelled."""
        return self.times >= 2

    def ask(self) -> None:
        """Ask once more, as a signal does."""
        self.times += 1

    def wait(self, seconds: float) -> None:
        """Sleep, but not on after a further request."""
        before = self.times
        deadline = time.monotonic() + seconds
        while self.times == before:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return
            time.sleep(min(TICK_S, left_s))

    def _count(self, number: int, *_: Any) -> None:
        self.last_signal = number
        self.times += 1


class StopNotice:
    """Says, once for each, that the agent has understood what it was told, and what it does of it."""

    def __init__(self, stop: StopRequest, voice: Voice) -> None:
        self._stop = stop
        self._voice = voice
        self._said = 0
        self.means(
            "the job in hand is finished first; a second signal cancels it", "the job in hand is cancelled"
        )

    def means(self, once: str, twice: str) -> None:
        """What a first and a second request bring about from now on."""
        self._once, self._twice = once, twice

    def look(self) -> None:
        if self._said < 1 <= self._stop.times < 2:
            self._voice.say(f"told to stop: {self._once}")
        if self._said < 2 <= self._stop.times:
            self._voice.say(f"told to stop again: {self._twice}")
        self._said = min(2, self._stop.times)
