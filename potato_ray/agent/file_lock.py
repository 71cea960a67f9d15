"""A lock on a file, which agents of one machine share; it ends with the process at the latest."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from types import TracebackType
from typing import Callable

from potato_ray.agent.errors import AgentError, Stopped
from potato_ray.agent.patience import Stop

_LOOK_EVERY_S = 0.1


class FileLock:
    """Exclusive, or `shared` with others that share it. `take` waits, `try_to_take` does not."""

    def __init__(self, path: Path, shared: bool = False) -> None:
        self.path = path
        self._kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        self._descriptor: int | None = None

    def try_to_take(self) -> bool:
        """Whether it is held now. Where the file system knows no locks, it always is. Raises OSError."""
        descriptor = os.open(str(self.path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            fcntl.flock(descriptor, self._kind | fcntl.LOCK_NB)
        except OSError as failure:
            if failure.errno not in (errno.ENOLCK, errno.ENOTSUP):
                os.close(descriptor)
                if isinstance(failure, BlockingIOError):
                    return False
                raise
        self._descriptor = descriptor
        return True

    def take(
        self, wait_s: float, stop: Stop | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """Wait for it. Raises AgentError (lock_held) after `wait_s`, Stopped, OSError."""
        ends_at = clock() + wait_s
        while not self.try_to_take():
            if stop is not None and stop.is_set():
                raise Stopped("The agent was told to stop while it waited for another one.")
            if clock() >= ends_at:
                raise AgentError(
                    f"Another agent has held {self.path} for {wait_s:.0f} s.",
                    code="lock_held",
                    next_step="Look for an agent that hangs, or give this one a --workdir of its own.",
                )
            time.sleep(_LOOK_EVERY_S)

    @property
    def is_in_place(self) -> bool:
        """Whether it is held, and its file is the one that others try to take."""
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(os.fstat(self._descriptor), self.path.stat())
        except OSError:
            return False

    def release(self) -> None:
        """Let go of it; once is enough."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> FileLock:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()
