"""Files that are on the disk when a call returns: lines that are appended, and texts that are replaced."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

_PIECE_BYTES = 1 << 20


class Lines:
    """A file of lines that one writer appends to. Knows how many there are; counted when it is opened.

    A last line without its end is what a crash left of a write that nobody was told of: it is cut off.
    Raises OSError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.count = 0
        self.n_bytes = 0
        self._inode: tuple[int, int] | None = None

    def look(self) -> int:
        """The number of whole lines now; counts again only when another has written the file."""
        try:
            details = self.path.stat()
        except FileNotFoundError:
            self.count, self.n_bytes, self._inode = 0, 0, None
            return 0
        inode = (details.st_dev, details.st_ino)
        if inode != self._inode or details.st_size != self.n_bytes:
            self._inode = inode
            self._recount()
        return self.count

    def append(self, lines: Sequence[bytes]) -> None:
        """Add lines, each without its end, in one write. After `look`."""
        data = b"".join(line + b"\n" for line in lines)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        descriptor = os.open(self.path, flags, 0o644)
        try:
            _write_whole(descriptor, data)
            os.fsync(descriptor)
            details = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        if self._inode is None:
            sync_folder(self.path.parent)
        self._inode = (details.st_dev, details.st_ino)
        self.n_bytes += len(data)
        self.count += len(lines)

    def _recount(self) -> None:
        count = whole = read = 0
        with self.path.open("rb") as file:
            while piece := file.read(_PIECE_BYTES):
                count += piece.count(b"\n")
                end = piece.rfind(b"\n") + 1
                whole = read + end if end else whole
                read += len(piece)
        if whole != read:
            os.truncate(self.path, whole)
        self.count, self.n_bytes = count, whole


def _write_whole(descriptor: int, data: bytes) -> None:
    """All of it, or nothing: what a full disk has cut off is taken back."""
    size = os.fstat(descriptor).st_size
    left = memoryview(data)
    try:
        while left:
            left = left[os.write(descriptor, left) :]
    except OSError:
        os.ftruncate(descriptor, size)
        raise


def put_text(path: Path, text: str) -> None:
    """Write a whole text, aside first. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8", "replace"))
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def sync_folder(folder: Path) -> None:
    """See to it that the names in a folder are on the disk, too. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
