"""Renewing the lease of a job folder, however long whoever follows the job has to wait for something else."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Callable

from potato_ray.job.follow import Follower

RENEW_EVERY_S = 1.0


def _pass_over(failure: OSError) -> None:
    """One missed renewal is nothing; a folder that is gone ends launcher and job."""


class LeaseKeeper:
    """Renews from a thread of its own, for the length of a `with` block.

    Whoever follows a job may wait for minutes, for a registry that is locked or a network; the worker is
    healthy all the same, and its launcher must not take it for abandoned. `trouble` hears of the first of
    several failures in a row.
    """

    def __init__(
        self,
        follower: Follower,
        every_s: float = RENEW_EVERY_S,
        trouble: Callable[[OSError], None] = _pass_over,
    ) -> None:
        self._follower = follower
        self._every_s = every_s
        self._trouble = trouble
        self._failing = False
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name="lease", daemon=True)

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        # A disk that does not answer holds the thread, not the end of the job.
        self._thread.join(timeout=self._every_s)

    def _keep(self) -> None:
        self._renew()
        while not self._stop.wait(self._every_s):
            self._renew()

    def _renew(self) -> None:
        try:
            self._follower.renew_lease()
            self._failing = False
        except OSError as failure:
            if not self._failing:
                self._trouble(failure)
            self._failing = True
