"""A disk of its own for the project of a test: it can be filled, made read-only, and is gone afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

from parts import missing, need_command

BLOCK = b"x" * 4096


class SmallDisk:
    """Puts `folder`, with what is in it, onto a disk of `size_mb` for the length of a `with` block.

    The disk is a tmpfs. `beside` is a second way to the same files, on which they can always be written.
    """

    def __init__(self, folder: Path, size_mb: int) -> None:
        self.folder = folder
        self._size_mb = size_mb
        self._aside = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
        self.beside = self._aside / "disk"
        self._mounts = contextlib.ExitStack()

    def __enter__(self) -> SmallDisk:
        need_command("mount")
        self.beside.mkdir()
        self._mount(self.beside, "-t", "tmpfs", "-o", f"size={self._size_mb}m", "tmpfs")
        shutil.copytree(self.folder, self.beside, dirs_exist_ok=True, symlinks=True)
        self._mount(self.folder, "--bind", str(self.beside))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._mounts.close()
        shutil.rmtree(self._aside, ignore_errors=True)

    def fill(self, *, leave_kb: int = 0) -> None:
        """Leave so much space, in KiB, and not a block more."""
        with self._filler.open("ab", buffering=0) as handle, contextlib.suppress(OSError):
            while _free_kb(self.beside) > leave_kb:
                handle.write(BLOCK)

    def free(self) -> None:
        """Give the space back."""
        self._filler.unlink(missing_ok=True)

    @contextlib.contextmanager
    def read_only(self) -> Iterator[None]:
        """The project's folder is read-only for the length of a `with` block.

        What is open for writing stays so: the kernel takes that from nobody, unless a disk breaks.
        """
        _call("mount", "--bind", str(self.beside), str(self.folder))
        try:
            _call("mount", "-o", "remount,bind,ro", str(self.folder))
            yield
        finally:
            _call("umount", "--lazy", str(self.folder))

    @property
    def _filler(self) -> Path:
        return self.beside / "filler"

    def _mount(self, where: Path, *arguments: str) -> None:
        try:
            _call("mount", *arguments, str(where))
        except subprocess.CalledProcessError as failure:
            missing(f"nothing can be mounted here: {failure.stderr.strip()}")
        # Lazily: a process that is being killed may still have a file of it open.
        self._mounts.callback(_call, "umount", "--lazy", str(where))


def _free_kb(folder: Path) -> int:
    found = os.statvfs(folder)
    return found.f_bavail * found.f_frsize // 1024


def _call(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=20)
