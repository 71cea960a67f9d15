"""The life of a server's Ray and controller: they are brought up, watched, and brought up again.

All of it happens in one thread, so that the web pages answer from the first second on and signals are
heard at any time. Ray ends the whole process when its central server has been gone for a minute;
the watch is faster than that.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Protocol

from potato_ray.errors import PotatoRayError
from potato_ray.server.context import Phase
from potato_ray.server.link import LiveLink

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 3.0
ANSWER_WITHIN_S = 5.0
MAX_SILENCES = 2
PAUSES_S = (0.0, 1.0, 5.0, 15.0, 30.0)
"""Before each try to bring Ray up again."""
STEADY_S = 300.0
"""After so long without trouble all tries are there again."""


class Held(Protocol):
    """What is kept alive: a Session that holds the project."""

    def bring_up(self, wanted: Callable[[], bool]) -> None: ...

    def take_down(self, *, answers: bool = True) -> None: ...

    def is_alive(self, timeout_s: float) -> bool: ...


class Life:
    """Keeps `held` up from `start` to `stop`, and tells the link how far it is.

    `tell` takes sentences for people. `failed` is called once, when all tries are used up; the link's
    `trouble` says why. `wait` sleeps until the time is over or the event is set; tests replace it.
    """

    def __init__(
        self,
        held: Held,
        link: LiveLink,
        *,
        tell: Callable[[str], None],
        failed: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[threading.Event, float], bool] = threading.Event.wait,
    ) -> None:
        self._held = held
        self._link = link
        self._tell = tell
        self._failed = failed
        self._clock = clock
        self._wait = wait
        self._stopping = threading.Event()
        self._pauses = list(PAUSES_S)
        self._thread = threading.Thread(target=self.run, name="life", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self, timeout_s: float) -> bool:
        """Take everything down; False when that was not done in time."""
        self._link.close()
        self._stopping.set()
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def run(self) -> None:
        """The thread: returns when it was told to stop, or has failed."""
        try:
            self._come_up()
            while not self._stopping.is_set():
                self._watch()
                self._come_up_again()
        except Exception as failure:  # noqa: BLE001 - it is told, and the server ends
            self._fail(failure)
        finally:
            self._take_down(answers=self._link.phase is Phase.STOPPING)

    def _come_up(self) -> None:
        try:
            self._bring_up()
        except PotatoRayError as trouble:
            if trouble.code != "controller_restarting":
                raise  # another try would meet the same
            self._come_up_again(trouble)
        except Exception as failure:  # noqa: BLE001 - Ray's failures are of many kinds
            self._come_up_again(failure)

    def _bring_up(self) -> None:
        self._held.bring_up(lambda: not self._stopping.is_set())
        if not self._stopping.is_set():
            self._link.enter(Phase.READY)
            self._tell("ready: runs can start")

    def _watch(self) -> None:
        """Returns when it has been silent too often, or is to stop."""
        silences, since = 0, self._clock()
        while silences < MAX_SILENCES and not self._wait(self._stopping, LOOK_EVERY_S):
            silences = 0 if self._held.is_alive(ANSWER_WITHIN_S) else silences + 1
            if self._clock() - since >= STEADY_S:
                self._pauses = list(PAUSES_S)

    def _come_up_again(self, last: Exception | None = None) -> None:
        """Try until it is up. Raises what the last try has met."""
        while not self._stopping.is_set():
            self._link.enter(Phase.RESTARTING)
            if not self._pauses:
                raise last or _lost()
            pause_s = self._pauses.pop(0)
            self._tell(f"Ray {_why(last)}; it is started again{f' in {pause_s:.0f} s' if pause_s else ''}")
            self._take_down(answers=False)
            if self._wait(self._stopping, pause_s):
                return
            try:
                self._bring_up()
                return
            except Exception as failure:  # noqa: BLE001 - of many kinds; the next try may succeed
                last = failure

    def _take_down(self, *, answers: bool) -> None:
        try:
            self._held.take_down(answers=answers)
        except Exception as failure:  # noqa: BLE001 - what is left ends with this process
            logger.warning("Ray could not be ended cleanly: %s: %s", type(failure).__name__, failure)

    def _fail(self, failure: Exception) -> None:
        if self._stopping.is_set():
            return  # it met its own end
        self._link.trouble = failure if isinstance(failure, PotatoRayError) else _ray_failed(failure)
        self._link.enter(Phase.FAILED)
        self._failed()


def _why(last: Exception | None) -> str:
    return f"did not come up ({type(last).__name__})" if last is not None else "does not answer any more"


def _ray_failed(failure: Exception) -> PotatoRayError:
    first_line = (str(failure).splitlines() or [""])[0]
    return PotatoRayError(
        "Ray could not be started.",
        code="ray_failed",
        evidence=f"{type(failure).__name__}: {first_line}",
        next_step="Look whether the machine has memory left, some 400 MB for Ray, and space in /tmp.",
    )


def _lost() -> PotatoRayError:
    return PotatoRayError(
        "Ray was lost again and again.",
        code="ray_failed",
        evidence=f"It was started {len(PAUSES_S)} times in a short while, and stopped answering each time.",
        next_step="Look whether something ends processes of this machine: its memory, limits, or a clean-up.",
    )
