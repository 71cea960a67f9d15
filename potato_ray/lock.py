"""One holder of a project at a time: a lock file, and a note of who holds it.

The lock is the kernel's (flock), so it ends with its process, however that dies. The note,
`<task_dir>/.potato_ray/server.json` (mode 0600), is how other commands find the holder: `pid`, `host`,
`since` (epoch seconds UTC) and `purpose`, for a server `url` too, and `ray_address` while Ray is up.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from potato_ray.errors import Conflict

SERVING = "potato-ray start"
"""The purpose of a holder that is a server."""


def private_folder(path: Path) -> Path:
    """Make a folder that only its owner can enter, and return it."""
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.chmod(0o700)
    return path


def write_private(path: Path, body: Mapping[str, Any]) -> None:
    """Write a small JSON file of mode 0600, atomically."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
        json.dump(dict(body), handle, indent=1)
        handle.flush()
        os.fsync(handle.fileno())
    temporary.replace(path)


class ProjectLock:
    """Holds a project from `acquire` to `release`."""

    def __init__(self, state_dir: Path) -> None:
        self.state_dir = state_dir
        self._descriptor: int | None = None

    @property
    def note(self) -> Path:
        return self.state_dir / "server.json"

    def acquire(self, purpose: str) -> None:
        """Take the project. Raises Conflict, naming the holder, when somebody else has it."""
        private_folder(self.state_dir)
        descriptor = os.open(self.state_dir / "lock", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise self._held() from None
        self._descriptor = descriptor
        try:
            self.describe(purpose=purpose)
        except BaseException:
            self.release()  # a full disk: the kernel's lock would last as long as this process
            raise

    def describe(self, **facts: Any) -> None:
        """Say in the note who holds the project, and where it can be reached."""
        body = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        write_private(self.note, {**body, **facts})

    def release(self) -> None:
        """Give the project back; harmless when it is not held."""
        if self._descriptor is None:
            return
        with contextlib.suppress(FileNotFoundError):
            self.note.unlink()
        os.close(self._descriptor)
        self._descriptor = None

    def _held(self) -> Conflict:
        holder = _noted(self.note) or {}
        who = f"{holder.get('purpose', 'another process')}, process {holder.get('pid', 'unknown')}"
        place = f" at {holder['url']}" if holder.get("url") else ""
        return Conflict(
            f"The project is in use by {who} on {holder.get('host', 'this machine')}.",
            code="project_in_use",
            evidence=f"It holds the lock {self.state_dir / 'lock'}.",
            next_step=f"Use that one{place}, or stop it and try again.",
        )


@contextlib.contextmanager
def holding(state_dir: Path, purpose: str) -> Iterator[ProjectLock]:
    """Hold the project for the length of a `with` block."""
    lock = ProjectLock(state_dir)
    lock.acquire(purpose)
    try:
        yield lock
    finally:
        lock.release()


def holder(state_dir: Path) -> dict[str, Any] | None:
    """The note of whoever holds a project; None when nobody does.

    A note that outlived its process (it was killed, or the machine was) holds nothing.
    """
    note = _noted(state_dir / "server.json")
    if note is None:
        return None
    try:
        descriptor = os.open(state_dir / "lock", os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return note
    finally:
        os.close(descriptor)
    return None


def _noted(path: Path) -> dict[str, Any] | None:
    """What stands in a note: nothing when it is no JSON object, None when there is no note."""
    try:
        body = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
