"""Renewing the lease of a job folder, whatever else the agent has to wait for."""

from __future__ import annotations

import threading
from types import TracebackType

from potato_ray.job.follow import Follower


class LeaseKeeper:
    """Renews from a thread of its own, for the length of a `with` block."""

    def __init__(self, follower: Follower, every_s: float) -> None:
        self._follower = follower
        self._every_s = every_s
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
        except OSError:
            pass  # one missed renewal is nothing; a folder that is gone ends the launcher
