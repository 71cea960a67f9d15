"""Renewing a run's lease, however long whoever follows the run has to wait for something else."""

from __future__ import annotations

import logging
import threading
from types import TracebackType
from typing import Final

from potato_ray.job.follow import Follower

logger = logging.getLogger(__name__)

RENEW_EVERY_S: Final = 1.0


class LeaseKeeper:
    """Renews the lease of a job folder from a thread of its own, for the length of a `with` block.

    A sink may wait for minutes, for example while the registry is locked; the worker is healthy all
    the same, and its launcher must not take it for abandoned.
    """

    def __init__(self, follower: Follower, run_id: str, every_s: float = RENEW_EVERY_S) -> None:
        self._follower = follower
        self._run_id = run_id
        self._every_s = every_s
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._keep, name=f"lease of {run_id}", daemon=True)
        self._failing = False

    def __enter__(self) -> LeaseKeeper:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        # A disk that does not answer holds the thread, not the end of the run.
        self._thread.join(timeout=self._every_s)

    def _keep(self) -> None:
        self._renew()
        while not self._stop.wait(self._every_s):
            self._renew()

    def _renew(self) -> None:
        try:
            self._follower.renew_lease()
            self._failing = False
        except OSError as error:
            # One missed renewal is nothing; a folder that is gone ends launcher and execution.
            if not self._failing:
                logger.warning("run %s: its lease was not renewed: %s", self._run_id, error)
            self._failing = True
