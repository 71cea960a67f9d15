"""Unpacking an archive that somebody else made: plain files and folders inside one folder, and nothing more.

An archive that holds anything else is refused as a whole, by the name of the member, and nothing of it stays.
"""

from __future__ import annotations

import errno
import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from dataclasses import dataclass
from pathlib import Path

from potato_ray.agent.errors import ArchiveRefused, DiskFull, Stopped
from potato_ray.agent.member_names import shown, usable_path
from potato_ray.agent.patience import Stop
from potato_ray.agent.tar_stream import TarStream

TEMPORARY = ".unpack-"
"""How the name of a folder begins that is still being unpacked into."""
MB = 2**20
_DAMAGE = (
    EOFError,
    ValueError,
    IndexError,
    OverflowError,
    RecursionError,
    zlib.error,
    gzip.BadGzipFile,
    tarfile.TarError,
)
_KINDS = {
    tarfile.SYMTYPE: "a link",
    tarfile.LNKTYPE: "a link",
    tarfile.CHRTYPE: "a device",
    tarfile.BLKTYPE: "a device",
    tarfile.FIFOTYPE: "a named pipe",
}


@dataclass(frozen=True)
class UnpackLimits:
    """What an archive may hold: files and folders, bytes, and bytes for each packed one.

    The ratio counts only beyond `free_bytes`: small archives of alike rows pack very well.
    """

    n_members: int = 1_000_000
    n_bytes: int = 1 << 40
    ratio: float = 200.0
    free_bytes: int = 64 * MB

    def most_bytes(self, packed_bytes: int) -> int:
        """Into how much an archive of this size may unpack."""
        return min(self.n_bytes, max(self.free_bytes, int(self.ratio * packed_bytes)))


DEFAULT_LIMITS = UnpackLimits()


def unpack(
    archive: Path, folder: Path, *, limits: UnpackLimits = DEFAULT_LIMITS, stop: Stop | None = None
) -> None:
    """Unpack a tar.gz into `folder`, which appears whole or not at all; one that is there already stays.

    Files get mode 0600, folders 0700. Raises ArchiveRefused, DiskFull, Stopped, OSError.
    """
    if folder.is_dir():
        return
    aside = Path(tempfile.mkdtemp(prefix=TEMPORARY, dir=str(folder.parent)))
    try:
        _unpack_into(archive, aside, limits, stop)
        _appear(aside, folder)
    except OSError as failure:
        if failure.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_space(archive, folder.parent) from failure
        raise
    finally:
        shutil.rmtree(str(aside), ignore_errors=True)


def _unpack_into(archive: Path, aside: Path, limits: UnpackLimits, stop: Stop | None) -> None:
    try:
        with gzip.open(str(archive), "rb") as packed:
            stream = TarStream(packed, limits.most_bytes(archive.stat().st_size))
            _Unpacking(archive.name, aside, limits, stop).take_all(stream)
            stream.check_end()
    except _DAMAGE as failure:
        raise ArchiveRefused(
            f"The archive {archive.name} is damaged.",
            code="bad_archive",
            evidence=f"{type(failure).__name__}: {failure}"[:200],
        ) from failure


def _appear(aside: Path, folder: Path) -> None:
    try:
        aside.rename(folder)
    except OSError as failure:
        if failure.errno not in (errno.ENOTEMPTY, errno.EEXIST) or not folder.is_dir():
            raise
        # Somebody else was faster, with the same archive.


class _Unpacking:
    """One pass over one archive."""

    def __init__(self, name: str, folder: Path, limits: UnpackLimits, stop: Stop | None) -> None:
        self._name = name
        self._folder = os.fsencode(str(folder))
        self._limits = limits
        self._stop = stop
        self._n_members = 0

    def take_all(self, stream: TarStream) -> None:
        for member in stream.members():
            self._n_members += 1
            if self._n_members > self._limits.n_members:
                raise self._refused(f"it holds more than {self._limits.n_members} files")
            if not 0 <= member.size <= stream.left:
                raise self._refused(f"it unpacks into more than {stream.most_bytes / MB:.0f} MB")
            self._take(member, stream)

    def _take(self, member: tarfile.TarInfo, stream: TarStream) -> None:
        try:
            path = os.path.join(self._folder, usable_path(member.name))  # noqa: PTH118 - bytes
        except ValueError as failure:
            raise self._refused(f"the name {shown(member.name)} {failure}") from failure
        try:
            if member.isdir():
                os.makedirs(path, 0o700, exist_ok=True)  # noqa: PTH103 - bytes
            elif member.type in (tarfile.REGTYPE, tarfile.AREGTYPE) and not member.issparse():
                self._write(path, member, stream)
            else:
                kind = _KINDS.get(member.type, "no plain file")
                raise self._refused(f"{shown(member.name)} is {kind}")
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as failure:
            raise self._refused(f"{shown(member.name)} is in the way of another of its files") from failure

    def _write(self, path: bytes, member: tarfile.TarInfo, stream: TarStream) -> None:
        os.makedirs(os.path.dirname(path), 0o700, exist_ok=True)  # noqa: PTH103, PTH120 - bytes
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
        with os.fdopen(descriptor, "wb") as handle:
            for chunk in stream.content(member.size):
                handle.write(chunk)
                if self._stop is not None and self._stop.is_set():
                    raise Stopped(f"The agent was told to stop while it unpacked {self._name}.")

    def _refused(self, why: str) -> ArchiveRefused:
        return ArchiveRefused(
            f"The archive {self._name} is not unpacked: {why}.",
            next_step="Report it: no archive of the server's holds such a thing.",
        )


def _no_space(archive: Path, where: Path) -> DiskFull:
    free = shutil.disk_usage(str(where)).free / MB
    return DiskFull(
        f"There is no space to unpack {archive.name} on the agent's disk.",
        evidence=f"{free:.1f} MB are free.",
        next_step=f"Free some space in {where}, or give the agent another --workdir.",
    )
