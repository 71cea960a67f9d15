"""The beginning of a file that is still being fetched, with the digest of what is there."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Callable

CHUNK_BYTES = 256 * 1024


class PartFile:
    """`n_bytes` and `sha256` are always those of what the file holds. Methods raise OSError."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.n_bytes = 0
        self._digest = hashlib.sha256()

    @property
    def sha256(self) -> str:
        """In hex."""
        return self._digest.hexdigest()

    def take_up(self, between: Callable[[], None]) -> None:
        """Read what an earlier attempt has left; `between` is called now and then, and may raise."""
        self.n_bytes = 0
        self._digest = hashlib.sha256()
        descriptor = os.open(str(self.path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "rb") as handle:
            for chunk in iter(lambda: handle.read(CHUNK_BYTES), b""):
                between()
                self._count(chunk)

    def append(self, descriptor: int, piece: bytes) -> None:
        """Write to a descriptor of `open`."""
        while piece:
            written = os.write(descriptor, piece)
            self._count(piece[:written])
            piece = piece[written:]

    def open(self) -> int:
        """A descriptor to append to."""
        return os.open(str(self.path), os.O_WRONLY | os.O_APPEND | os.O_NOFOLLOW)

    def begin_anew(self) -> None:
        """Forget what is there."""
        os.truncate(str(self.path), 0)
        self.n_bytes = 0
        self._digest = hashlib.sha256()

    def _count(self, piece: bytes) -> None:
        self._digest.update(piece)
        self.n_bytes += len(piece)
