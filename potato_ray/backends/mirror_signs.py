"""What a mirror tells of the machine behind it: since when it is silent, idle, or at work.

All by our own clock, which is never set; those of two machines need not agree.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from potato_ray.mirror.folder import MirrorFolder

STILL_LOOK_S: Final = 10.0


class Silence:
    """How long a file has not been touched.

    What happened before we looked counts for nothing, so our own absence is not the agent's silence.
    `was_broken`: a touch was seen.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._touched = self._stamp()
        self._since = clock()
        self.was_broken = False

    def seconds(self) -> float:
        """Seconds since the last touch that was seen."""
        touched = self._stamp()
        if touched != self._touched:
            self._touched, self._since = touched, self._clock()
            self.was_broken = True
        return self._clock() - self._since

    def _stamp(self) -> int | None:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return None


class Stillness:
    """How long no worker has lived, and nothing come but heartbeats: no event, no note, no upload."""

    def __init__(self, folder: MirrorFolder, clock: Callable[[], float]) -> None:
        self._folder = folder
        self._clock = clock
        self._sizes: dict[str, int] = {}
        self._looked_at = float("-inf")
        self._since = clock()

    def seconds(self) -> float:
        """Seconds since the last change that was seen; looked for at intervals."""
        now = self._clock()
        if now - self._looked_at >= STILL_LOOK_S:
            self._looked_at = now
            sizes = self._look()
            if sizes != self._sizes or self._folder.says_working():
                self._sizes, self._since = sizes, now
        return now - self._since

    def _look(self) -> dict[str, int]:
        try:
            with os.scandir(self._folder.path) as entries:
                return {each.name: each.stat().st_size for each in entries if each.is_file()}
        except OSError:
            return self._sizes  # a file that goes just now


class Work:
    """How long a worker has worked, from its first word on, also while another followed the run.

    Only once, when we come to know of the worker, the clock that may be set is asked.
    """

    def __init__(
        self, folder: MirrorFolder, clock: Callable[[], float], wall_clock: Callable[[], float]
    ) -> None:
        self._folder = folder
        self._clock = clock
        self._wall_clock = wall_clock
        self._since: float | None = None

    def seconds(self) -> float:
        """Seconds of work; 0.0 where no worker is known."""
        if self._since is None:
            began_at = self._began_at()
            if began_at is None:
                return 0.0
            self._since = self._clock() - max(0.0, self._wall_clock() - began_at)
        return self._clock() - self._since

    def _began_at(self) -> float | None:
        try:
            return self._folder.read_start()
        except OSError:
            return None
