"""The model files of a run, received from a host as one stream (potato_ray.host.artifacts says its form).

    have() ─▶ the request's `have`        receive(stream) ─▶ Copied

Each file grows as a *.part and gets its name when its sha256 is right, so a copy that broke off goes on where
it was. The host is not trusted: nothing is written outside of the folder, however its names are made.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Protocol

from potato_ray.agent.member_names import shown
from potato_ray.backends.artifact_list import MB, Announced, ArtifactList, HostError, read_list
from potato_ray.backends.artifact_target import target_below, target_in
from potato_ray.errors import FULL, PotatoRayError
from potato_ray.host.artifacts import key_of
from potato_ray.ssh.failures import SshTimeout

STALL_S: Final = 180.0
PARTS: Final = ".parts"
"""The folder, in that of the artifacts, for files that are not whole; gone when all are."""
PREDICTIONS: Final = "predictions.jsonl"
"""It has come with the run's end, and is not the host's to replace."""
_MOST_LIST_BYTES: Final = 64 << 20
_CHUNK_BYTES: Final = 1 << 18
_DIGEST = re.compile(rb"[0-9a-f]{64}")

Told = Callable[[int, int], None]
"""Hears of the bytes that are here and the bytes in all, often. What it raises ends the copy."""


class ByteStream(Protocol):
    """What comes from the host."""

    def read(self, n_bytes: int, timeout_s: float, /) -> bytes:
        """At least one byte and at most so many, b"" at the end. A TimeoutError or SshTimeout: none came."""


class CopyFailed(PotatoRayError):
    """A copy that did not come to its end; what has come stays, for the next try.

    Its code is copy_stalled, copy_broke_off, copy_refused (the host sent what it must not), copy_damaged,
    or disk_full; an error that the host has sent keeps its code.
    """

    default_code = "copy_broke_off"


@dataclass(frozen=True)
class Copied:
    """What a copy has brought. `left`: (path, bytes) of files that are too large, `skipped`: (path, why)."""

    n_files: int
    n_bytes: int
    left: tuple[tuple[str, int], ...] = ()
    skipped: tuple[tuple[str, str], ...] = ()


def _unheard(n_bytes: int, of_bytes: int) -> None:
    """Nobody wants to know."""


@dataclass
class ArtifactCopy:
    """Copies into `folder`, which is made; `host` is for messages, `max_file_mb` holds for each file.

    One after the other: have, the request, receive. A new try begins with have again.
    """

    folder: Path
    host: str
    max_file_mb: float
    told: Told = _unheard
    stall_s: float = STALL_S
    _early: bytearray = field(default_factory=bytearray, init=False)
    _made: set[str] = field(default_factory=set, init=False)

    def have(self) -> dict[str, int]:
        """Bytes of what is here of each file, whole or in part, by key_of its path. Raises OSError."""
        parts = self.folder / PARTS
        files = [path for path in self.folder.rglob("*") if path.is_file() and not path.is_symlink()]
        whole = {
            key_of(path.relative_to(self.folder).as_posix()): path.stat().st_size
            for path in files
            if parts not in path.parents
        }
        return {**whole, **{path.stem: path.stat().st_size for path in files if path.parent == parts}}

    def receive(self, stream: ByteStream) -> Copied:
        """Receive what the host sends. Raises CopyFailed, OSError, and what `told` raises."""
        try:
            return self._receive(stream)
        except OSError as failure:
            if failure.errno not in FULL:
                raise
            raise self._disk_full(failure.strerror or "") from failure

    def _receive(self, stream: ByteStream) -> Copied:
        self._early.clear()
        announced = self._list(stream)
        self._check_space(announced.n_missing_bytes)
        done, of_bytes = 0, announced.n_bytes
        self.told(done, of_bytes)
        (self.folder / PARTS).mkdir(mode=0o700, exist_ok=True)
        self._made.clear()
        for file in announced.files:
            self._receive_file(stream, file, done, of_bytes)
            done += file.n_bytes
        shutil.rmtree(self.folder / PARTS, ignore_errors=True)
        return Copied(len(announced.files), of_bytes, announced.left, announced.skipped)

    def _list(self, stream: ByteStream) -> ArtifactList:
        line = self._line(stream, _MOST_LIST_BYTES, "the list of the files")
        try:
            return read_list(line, self.max_file_mb, frozenset({PARTS, PREDICTIONS}))
        except HostError as error:
            message = f"{self.host} could not send the model files: {error.said.pop('message')}"
            raise CopyFailed(message, **error.said) from None
        except ValueError as failure:
            raise self._refused(str(failure)) from None

    def _check_space(self, n_bytes: int) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(self.folder).free
        if n_bytes > free:
            raise self._disk_full(f"{n_bytes / MB:.0f} MB are to come; {free / MB:.0f} MB are free.")

    def _receive_file(self, stream: ByteStream, file: Announced, done: int, of_bytes: int) -> None:
        target = self._target(file.path)
        part = self.folder / PARTS / f"{key_of(file.path)}.part"
        if file.offset and not part.exists() and target.is_file():
            target.replace(part)  # of an earlier copy: it has to match the digest as well
        digest = hashlib.sha256()
        descriptor = self._open(part, file, digest)
        try:
            here = file.offset
            while here < file.n_bytes:
                piece = self._some(stream, min(_CHUNK_BYTES, file.n_bytes - here), file.path)
                _write(descriptor, piece)
                digest.update(piece)
                here += len(piece)
                self.told(done + here, of_bytes)
        finally:
            os.close(descriptor)
        self._check_digest(self._line(stream, 64, file.path), digest.hexdigest(), file.path, part)
        part.replace(target)

    def _target(self, path: str) -> Path:
        """Where a file goes; refuses a way through something that is no folder, as a link is none."""
        above = path.rpartition("/")[0]
        try:
            if above not in self._made:
                target_in(self.folder, path).parent.mkdir(parents=True, exist_ok=True)
                self._made.add(above)
            return target_below(self.folder / above, path)
        except ValueError as failure:
            raise self._refused(str(failure)) from None

    def _open(self, part: Path, file: Announced, digest: Any) -> int:
        """A descriptor at the file's offset; `digest` has taken in what is before it."""
        descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o644)
        try:
            here = os.fstat(descriptor).st_size
            if here < file.offset:
                raise self._refused(f"it would go on with {shown(file.path)} behind what is here of it")
            if here > file.offset:
                os.ftruncate(descriptor, file.offset)
            while file.offset and (chunk := os.read(descriptor, _CHUNK_BYTES)):
                digest.update(chunk)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def _check_digest(self, announced: bytes, found: str, path: str, part: Path) -> None:
        if not _DIGEST.fullmatch(announced):
            raise self._refused(f"no sha256 came behind {shown(path)}")
        if announced.decode("ascii") != found:
            part.unlink()
            raise self._failed("copy_damaged", f"brought {shown(path)} with another sha256 than announced")

    # What comes, with a limit on every wait.

    def _line(self, stream: ByteStream, most_bytes: int, what: str) -> bytes:
        looked = 0
        while (end := self._early.find(b"\n", looked)) < 0:
            looked = len(self._early)
            if looked > most_bytes:
                raise self._refused("it sent a line without an end")
            self._early += self._read(stream, _CHUNK_BYTES, what)
        line = bytes(self._early[:end])
        del self._early[: end + 1]
        return line

    def _some(self, stream: ByteStream, most: int, what: str) -> bytes:
        """At least one byte. Of small files many come with one read."""
        if not self._early:
            piece = self._read(stream, _CHUNK_BYTES, what)
            if len(piece) <= most:
                return piece
            self._early += piece
        taken = bytes(self._early[:most])
        del self._early[:most]
        return taken

    def _read(self, stream: ByteStream, most: int, what: str) -> bytes:
        try:
            piece = stream.read(most, self.stall_s)
        except (TimeoutError, SshTimeout):
            raise self._failed("copy_stalled", f"sent nothing for {self.stall_s:.0f} s") from None
        if not piece:
            raise self._failed("copy_broke_off", "broke off", f"It was at {shown(what)}.")
        return piece

    def _refused(self, why: str) -> CopyFailed:
        return self._failed("copy_refused", f"was refused: {why}")

    def _disk_full(self, evidence: str) -> CopyFailed:
        advice = "Free some space on the disk of the project."
        return self._failed("disk_full", "found no space on the disk of the project", evidence, advice)

    def _failed(self, code: str, what: str, evidence: str = "", next_step: str = "") -> CopyFailed:
        advice = next_step or "The run's predictions are safe; only model files are missing."
        return CopyFailed(f"The copy from {self.host} {what}", code=code, evidence=evidence, next_step=advice)


def _write(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]
