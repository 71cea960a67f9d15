"""A tar.gz whose bytes depend on names and contents alone: no times, no owners, one order."""

from __future__ import annotations

import gzip
import os
import stat
import tarfile
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any, cast

from potato_ray.shipping.packed import HashingFile

FILE_MODE = 0o644
LEVEL = 4
"""Text shrinks nearly as much as at the highest level, at a multiple of its speed."""


def write_tar(target: HashingFile, entries: Iterable[tuple[str, Path]]) -> None:
    """Write the files of (name in the archive, file) in this order; links are followed.

    Raises OSError, also for a file that is no regular one or shrinks while it is read.
    """
    with (
        gzip.GzipFile("", "wb", LEVEL, cast("IO[bytes]", target), mtime=0) as squeezed,
        tarfile.open(fileobj=cast("IO[bytes]", squeezed), mode="w|", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, path in entries:
            _add(archive, name, path)


def _add(archive: tarfile.TarFile, name: str, path: Path) -> None:
    # A pipe in a file's place must not be waited for.
    with os.fdopen(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK), "rb") as file:
        details = os.fstat(file.fileno())
        if not stat.S_ISREG(details.st_mode):
            raise OSError(f"{path} is no file")
        archive.addfile(_entry(name, details.st_size), file)


def _entry(name: str, size: int) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.size = size
    entry.mode = FILE_MODE
    return entry


def files_below(folder: Path) -> list[tuple[str, Path]]:
    """(name, file) of everything below a folder, in order of name; links to files count as files."""
    found: list[tuple[str, Path]] = []
    for place, _, names in os.walk(folder, onerror=_raise):
        for each in names:
            path = Path(place, each)
            found.append((path.relative_to(folder).as_posix(), path))
    return sorted(found)


def _raise(error: OSError) -> Any:
    raise error
