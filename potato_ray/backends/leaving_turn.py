"""Turns of those that follow one run and leave its host: one at a time brings the model home and clears up.

The turn is a lock on a file in the run's folder, which the kernel takes from whoever dies.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final

from potato_ray.backends.accompanied import Talk
from potato_ray.ssh.deadline import Deadline

LOCK: Final = ".leaving.lock"
WITHIN_S: Final = 86400.0
"""A model of many GB may take hours; whoever has the turn for a day hangs, and is not waited for."""
LOOK_EVERY_S: Final = 0.2


class LeavingTurn:
    """For the length of a `with` block, once it was taken or waited for."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / LOCK
        self._descriptor: int | None = None

    def __enter__(self) -> LeavingTurn:
        # On a full disk, or without the folder, nobody has a turn; what is done then will say so itself.
        with contextlib.suppress(OSError):
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def take(self) -> bool:
        """Take the turn; False where another one has it."""
        if self._descriptor is None:
            return True
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        except OSError:  # a file system without locks
            pass
        return True

    def wait(self, talk: Talk) -> None:
        """Take it when it is free, or after WITHIN_S all the same; ends when the talk is stopped."""
        talk.step("another process that follows the run brings its model home")
        deadline = Deadline(WITHIN_S)
        while not self.take() and not deadline.passed and not talk.wait(LOOK_EVERY_S):
            pass
