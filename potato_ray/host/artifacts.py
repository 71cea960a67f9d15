"""The model files of a run, sent over stdout as one stream: many small ones cost one round trip in all.

    {"artifacts": {"files": [{"path", "bytes", "offset"}], "left": […], "skipped": […]}}
    of each file, in order: its bytes from the offset on, its sha256 (of all of it) in hex, a line end

The request's `have` says of which file how many bytes are there already: {key_of(path): bytes}.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import stat
from pathlib import Path
from typing import Any, Iterator, Mapping, NamedTuple

from potato_ray.agent.member_names import usable_path
from potato_ray.host.run_folder import RunFolder
from potato_ray.host.talk import Failed, say

CHUNK_BYTES = 256 * 1024
LARGE_BYTES = 64 * 1024
"""What is written by itself, without being gathered first."""
PIPE_BYTES = 1 << 20
F_SETPIPE_SZ = 1031
"""Of Linux; the fcntl module has its name from Python 3.10 on."""
MB = 1 << 20
DEFAULT_MB = 2048
MOST_FILES = 100_000


def key_of(path: str) -> str:
    """What a path goes by in `have`: it fits into a file's name, however long the path is."""
    return hashlib.sha256(path.encode("utf-8")).hexdigest()[:32]


class _File(NamedTuple):
    path: str
    where: Path
    n_bytes: int


def send_artifacts(request: Mapping[str, Any]) -> int:
    """Send them, without the predictions. `max_artifact_mb`: larger files are `left`.

    `skipped`: [{"path", "why"}] of what is no plain file, or has a name that cannot be one elsewhere.
    """
    folder = RunFolder.of(request).job
    root = folder.artifacts
    wanted_mb = request.get("max_artifact_mb")
    most_bytes = float(DEFAULT_MB if wanted_mb is None else wanted_mb) * MB
    skipped: list[dict[str, Any]] = []
    found = [each for each in _files(root, skipped) if each.where != folder.predictions]
    if len(found) > MOST_FILES:
        skipped.append(
            {"path": f"{len(found) - MOST_FILES} files", "why": f"are beyond the first {MOST_FILES}"}
        )
        del found[MOST_FILES:]
    sent = [each for each in found if each.n_bytes <= most_bytes]
    have = request.get("have") or {}
    offsets = {each.path: _offset(have.get(key_of(each.path)), each.n_bytes) for each in sent}
    say(
        {
            "artifacts": {
                "files": [
                    {"path": each.path, "bytes": each.n_bytes, "offset": offsets[each.path]} for each in sent
                ],
                "left": [
                    {"path": each.path, "bytes": each.n_bytes} for each in found if each.n_bytes > most_bytes
                ],
                "skipped": skipped,
            }
        }
    )
    _widen(1)
    stdout = _Stdout()
    try:
        for each in sent:
            _send(each, offsets[each.path], stdout)
    finally:
        stdout.flush()  # what came before a failure is whole, too
    return 0


def _offset(there: Any, n_bytes: int) -> int:
    return there if isinstance(there, int) and 0 <= there <= n_bytes else 0


def _files(root: Path, skipped: list[dict[str, Any]]) -> Iterator[_File]:
    """Every plain file below a folder, in order of path; a link to one of them counts as one."""
    inside = os.path.realpath(str(root))
    yield from _files_in(str(root), "", inside, skipped)


def _files_in(place: str, above: str, inside: str, skipped: list[dict[str, Any]]) -> Iterator[_File]:
    """Those of one folder, whose path below the root is `above`, and then those of its folders."""
    folders = []
    for entry in _entries(place):
        path = above + entry.name
        if entry.is_dir(follow_symlinks=False):
            folders.append(entry)
            continue
        try:
            usable_path(path)
            yield _File(path, Path(entry.path), _size(entry, inside))
        except (OSError, ValueError) as failure:
            why = failure.strerror if isinstance(failure, OSError) else str(failure)
            skipped.append({"path": ascii(path)[1:-1], "why": why or "it cannot be read"})
    for folder in folders:
        yield from _files_in(folder.path, f"{above}{folder.name}/", inside, skipped)


def _entries(place: str) -> list[os.DirEntry[str]]:
    """What is in a folder, by name; nothing where it cannot be read."""
    try:
        with os.scandir(place) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError:
        return []


def _size(entry: os.DirEntry[str], inside: str) -> int:
    """Raises ValueError with the rest of a sentence, OSError."""
    if entry.is_symlink():
        target = os.path.realpath(entry.path)
        if os.path.commonpath([target, inside]) != inside:
            raise ValueError("leads out of the folder")
    details = entry.stat()
    if not stat.S_ISREG(details.st_mode):
        raise ValueError("is no plain file")
    return details.st_size


class _Stdout:
    """Gathers what is small: each write of its own is a packet of its own."""

    def __init__(self) -> None:
        self._gathered = bytearray()

    def write(self, data: bytes) -> None:
        if len(data) >= LARGE_BYTES:
            self.flush()
            _write(data)
            return
        self._gathered += data
        if len(self._gathered) >= CHUNK_BYTES:
            self.flush()

    def flush(self) -> None:
        """Raises OSError when nobody listens any more."""
        gathered = bytes(self._gathered)
        self._gathered.clear()
        _write(gathered)


def _write(data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def _widen(descriptor: int) -> None:
    """Let a pipe hold more than its usual 64 KiB: each side sleeps and wakes less often."""
    try:
        fcntl.fcntl(descriptor, F_SETPIPE_SZ, PIPE_BYTES)
    except OSError:
        pass  # no pipe, or not on this system


def _send(file: _File, offset: int, stdout: _Stdout) -> None:
    """Raises Failed for a file that has become shorter: its bytes were announced."""
    digest = hashlib.sha256()
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC
    left = file.n_bytes
    descriptor = os.open(str(file.where), flags)
    try:
        while left:
            chunk = os.read(descriptor, min(CHUNK_BYTES, left))
            if not chunk:
                raise Failed("file_changed", f"{file.path} became shorter while it was sent.")
            digest.update(chunk)
            # What comes before the offset is read for the digest alone.
            stdout.write(chunk[max(0, offset - (file.n_bytes - left)) :])
            left -= len(chunk)
    finally:
        os.close(descriptor)
    stdout.write(digest.hexdigest().encode("ascii") + b"\n")
