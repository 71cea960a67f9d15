"""A file that was packed: written aside, hashed while it was written, and put in its place as a whole."""

from __future__ import annotations

import hashlib
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

_UNFINISHED = ".packing."


@dataclass(frozen=True)
class Packed:
    """A packed file: where it lies, its sha256 in hex and its size in bytes."""

    path: Path
    sha256: str
    n_bytes: int


class HashingFile:
    """A file that can only be written to; knows the digest and number of the bytes so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._hash = hashlib.sha256()
        self.n_bytes = 0

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    def write(self, data: bytes) -> int:
        self._hash.update(data)
        written = self._file.write(data)
        self.n_bytes += written
        return written

    def flush(self) -> None:
        self._file.flush()


def clear_unfinished(folder: Path) -> None:
    """Remove what packers that were killed have left in a folder where none is at work. Raises OSError."""
    for path in folder.glob(f"{_UNFINISHED}*"):
        path.unlink(missing_ok=True)


def pack_into(folder: Path, write: Callable[[HashingFile], None], named: Callable[[str], str]) -> Packed:
    """Let `write` fill a file in `folder`, durably, then give it the name that `named` makes of its digest.

    Whatever goes by that name is replaced at once. Raises what `write` raises, and OSError; nothing is
    left of the new file then.
    """
    descriptor, name = tempfile.mkstemp(dir=folder, prefix=_UNFINISHED)
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            hashing = HashingFile(file)
            write(hashing)
            file.flush()
            os.fsync(file.fileno())
        path = temporary.replace(folder / named(hashing.sha256))
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    return Packed(path, hashing.sha256, hashing.n_bytes)
