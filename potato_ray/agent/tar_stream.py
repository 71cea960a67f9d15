"""A packed tar read once from front to back, with a limit on all that it unpacks into.

tarfile parses the headers. It would read a header of any length into memory, go backwards where a size is
negative, and take damage in the middle for the end; what it reads from here stops all three.
"""

from __future__ import annotations

import tarfile
from typing import Any, Iterator

BLOCK_BYTES = 512
CHUNK_BYTES = 256 * 1024
LONGEST_HEADER_BYTES = 64 * 1024
"""Of the extra headers that long names take."""


class TarStream:
    """`packed`: the file to read (a GzipFile). `left`: bytes that may still come of it.

    Raises tarfile.TarError where the tar is damaged or too large, and what `packed` raises.
    """

    def __init__(self, packed: Any, most_bytes: int) -> None:
        self._packed = packed
        self.most_bytes = most_bytes
        self._position = 0
        self._last = b""

    @property
    def left(self) -> int:
        return self.most_bytes - self._position

    def members(self) -> Iterator[tarfile.TarInfo]:
        """The members one by one; `content` gives that of the last one, wholly or not at all."""
        archive: Any = tarfile.TarFile(fileobj=self, encoding="utf-8", errors="surrogateescape")  # type: ignore[arg-type]
        while True:
            member = archive.next()
            if member is None:
                return
            if archive.pax_headers:
                raise tarfile.ReadError("it has headers for all files")
            archive.members.clear()  # a list of all of them would only take memory
            yield member

    def content(self, n_bytes: int) -> Iterator[bytes]:
        """The next `n_bytes`."""
        while n_bytes > 0:
            chunk = self._take(min(CHUNK_BYTES, n_bytes))
            if not chunk:
                raise EOFError("it ends in the middle of a file")
            n_bytes -= len(chunk)
            yield chunk

    def check_end(self) -> None:
        """After the last member: there is the end mark, and nothing behind it."""
        if self._last != bytes(BLOCK_BYTES):
            raise tarfile.ReadError("it has no end mark")
        while True:
            chunk = self._take(CHUNK_BYTES)
            if not chunk:
                return
            if chunk.count(0) != len(chunk):
                raise tarfile.ReadError("something follows its end mark")

    def tell(self) -> int:
        """For tarfile."""
        return self._position

    def seek(self, position: int) -> None:
        """For tarfile: forward only."""
        if position < self._position:
            raise tarfile.ReadError("a size in it is no size")
        for _ in self.content(position - self._position):
            pass

    def read(self, n_bytes: int) -> bytes:
        """For tarfile: a header."""
        if not 0 <= n_bytes <= LONGEST_HEADER_BYTES:
            raise tarfile.ReadError(f"a header of it has {n_bytes} bytes")
        self._last = self._take(n_bytes)
        return self._last

    def _take(self, n_bytes: int) -> bytes:
        if n_bytes > self.left:
            n_bytes = self.left + 1
        taken: bytes = self._packed.read(n_bytes)
        self._position += len(taken)
        if self.left < 0:
            raise tarfile.ReadError(f"it unpacks into more than {self.most_bytes} bytes")
        return taken
