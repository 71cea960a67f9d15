"""A model file on its way here: a *.part beside the artifacts, which gets its name when it is whole.

One process at a time has it. What the disk says comes out as ProjectUnwritable.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from potato_ray.agent.member_names import shown
from potato_ray.backends.artifact_copy import PARTS
from potato_ray.errors import Conflict, ProjectUnwritable
from potato_ray.host.artifacts import key_of

T = TypeVar("T")

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC


class GrowingFile:
    """Open for the length of a `with` block; what has come stays for the next one.

    `home` is the run's artifacts folder, which is made. Raises Conflict (fetch_under_way) while another
    process has it.
    """

    def __init__(self, home: Path, path: str) -> None:
        self._path = path
        self._home = home
        self._part = home / PARTS / f"{key_of(path)}.part"
        self._descriptor = -1

    def __enter__(self) -> GrowingFile:
        self._descriptor = _on_disk(self._opened)
        try:
            self._have_alone()
        except BaseException:
            os.close(self._descriptor)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._descriptor)
        with suppress(OSError):
            self._part.parent.rmdir()  # others may be on their way

    @property
    def n_bytes(self) -> int:
        """What is here of it."""
        return os.fstat(self._descriptor).st_size

    def read(self, begin: int, end: int) -> bytes:
        """Some of what is here."""
        return _on_disk(lambda: os.pread(self._descriptor, end - begin, begin))

    def cut(self, n_bytes: int) -> None:
        """Go on behind so many bytes."""
        _on_disk(lambda: os.ftruncate(self._descriptor, n_bytes))
        os.lseek(self._descriptor, n_bytes, os.SEEK_SET)

    def check_space(self, n_bytes: int) -> None:
        """Refuse so many more bytes where the disk has no space for them."""
        free = _on_disk(lambda: shutil.disk_usage(self._home).free)
        if n_bytes > free:
            raise ProjectUnwritable.full(f"{n_bytes:,} bytes are to come; {free:,} are free.")

    def write(self, block: bytes) -> None:
        """Add the next bytes."""
        view = memoryview(block)
        while view:
            rest = view
            view = rest[_on_disk(lambda: os.write(self._descriptor, rest)) :]  # noqa: B023 - called at once

    def become(self, target: Path) -> None:
        """It is whole: give it its name, durably."""

        def name() -> None:
            os.fsync(self._descriptor)
            target.parent.mkdir(parents=True, exist_ok=True)
            self._part.replace(target)

        _on_disk(name)

    def _opened(self) -> int:
        self._part.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(self._part, _FLAGS, 0o644)

    def _have_alone(self) -> None:
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Who had it before may have given it its name since it was opened here.
            is_alone = self._part.stat().st_ino == os.fstat(self._descriptor).st_ino
        except OSError:
            is_alone = False
        if not is_alone:
            raise Conflict(
                f"Another process is fetching {shown(self._path)} already.",
                code="fetch_under_way",
                next_step="Wait for it, and look again.",
            )


def _on_disk(do: Callable[[], T]) -> T:
    try:
        return do()
    except OSError as failure:
        raise ProjectUnwritable.because(failure, "The run's folder") from failure
