"""Our code, where it is missing on the host: received, checked, unpacked, and there as a whole.

It goes to remote_dir/code/<sha256>/ in the form of agent.code_store and under the same lock, so that of
several starts at once one copies it and the others find it.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import json
import os
import re
import shutil
import tarfile
import time
from pathlib import Path
from typing import Any, Callable, Mapping

from potato_ray.host.remote_dir import place
from potato_ray.host.talk import Failed, read_line, read_some, say

LOCK_S = 180.0
"""For another start that copies the code."""
MOST_ARCHIVE_BYTES = 64 << 20
_SOURCE = re.compile(r"potato_ray(/[A-Za-z0-9_]+)*/[A-Za-z0-9_]+\.py")
_FILES = ".files.json"


def code_folder(request: Mapping[str, Any]) -> Path:
    """Where the version that the request names lies, or is to lie."""
    return place(request) / "code" / str(request.get("code") or "none")


def bring_code(request: Mapping[str, Any], tell: Callable[[bool], None]) -> Path:
    """The folder of our code; `tell` says whether it is there, and else it is received. Raises Failed."""
    root = code_folder(request)
    root.parent.mkdir(0o700, parents=True, exist_ok=True)
    lock = _lock(root.parent / ".lock")
    try:
        found = is_whole(root)
        tell(found)
        if not found:
            _unpack(_receive(root.name), root)
    finally:
        os.close(lock)
    say({"code": "found" if found else "copied"})
    return root


def is_whole(root: Path) -> bool:
    """Whether a version of the code is there with all its files; some systems clear caches file by file."""
    try:
        sizes = json.loads((root / _FILES).read_text("utf-8"))
        return all((root / name).stat().st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError):
        return False


def _lock(path: Path) -> int:
    """A descriptor that holds the lock. Where the file system knows no locks, there is nothing to hold."""
    descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    ends_at = time.monotonic() + LOCK_S
    while time.monotonic() < ends_at:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            time.sleep(0.1)
        except OSError as failure:
            if failure.errno not in (errno.ENOLCK, errno.ENOTSUP):
                raise
            return descriptor
    words = f"Another start has held {path} for {LOCK_S:.0f} s."
    raise Failed("lock_held", words, next_step="Look on that host for one that hangs.")


def _receive(digest: str) -> bytes:
    size = read_line().get("archive_bytes")
    if not isinstance(size, int) or not 0 < size <= MOST_ARCHIVE_BYTES:
        raise Failed("bad_input", f"{size!r} is no size of an archive of ours.")
    data = bytearray()
    while len(data) < size:
        data += read_some(min(size - len(data), 1 << 16))
    found = hashlib.sha256(data).hexdigest()
    if found != digest:
        words = "The copy of our code is damaged: its sha256 is not the announced one."
        raise Failed("wrong_digest", words, f"It is {found}.", "Start the run again.")
    return bytes(data)


def _unpack(data: bytes, root: Path) -> None:
    """Unpack source files, and nothing else, to a folder that appears whole or not at all."""
    new = root.with_name(".new-" + root.name)
    shutil.rmtree(str(new), ignore_errors=True)
    try:
        sizes = {}
        with tarfile.open(fileobj=io.BytesIO(data), mode="r:gz") as archive:
            for member in archive:
                if not member.isreg() or not _SOURCE.fullmatch(member.name):
                    raise Failed("bad_archive", f"The copy of our code holds {member.name!a}.")
                path = new / member.name
                path.parent.mkdir(0o700, parents=True, exist_ok=True)
                with path.open("xb") as file:
                    shutil.copyfileobj(archive.extractfile(member), file)  # type: ignore[arg-type]
                sizes[member.name] = member.size
        (new / _FILES).write_text(json.dumps(sizes), "utf-8")
        shutil.rmtree(str(root), ignore_errors=True)
        new.rename(root)
    except (tarfile.TarError, EOFError, FileExistsError) as failure:
        raise Failed("bad_archive", f"The copy of our code cannot be unpacked: {failure}.") from failure
    finally:
        shutil.rmtree(str(new), ignore_errors=True)
