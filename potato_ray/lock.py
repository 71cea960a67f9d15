"""One holder of a project at a time: a lock file, and a note of who holds it.

The lock is the kernel's (flock), so it ends with its process, however that dies. It lies on a file and
on the project's folder itself, which nobody removes while tidying up. The note,
`<task_dir>/.potato_ray/server.json` (mode 0600), is how other commands find the holder: `pid`, `host`,
`since` (epoch seconds UTC) and `purpose`, for a server `url` and the address that it `listens_on` too, and
`ray_address` while Ray is up.
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

from potato_ray.errors import Conflict, ProjectUnwritable

SERVING = "potato-ray start"
"""The purpose of a holder that is a server."""

GLANCE_S = 1.0
"""Whoever wants a project waits that long: far longer than a look at who holds it keeps it, or the start of
a program by a process that has just been killed, which has the lock until exec closes it."""


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
        self._locks: contextlib.ExitStack | None = None

    @property
    def note(self) -> Path:
        return self.state_dir / "server.json"

    def acquire(self, purpose: str) -> None:
        """Take the project.

        Raises Conflict, naming the holder, when somebody else has it, and ProjectUnwritable.
        """
        try:
            private_folder(self.state_dir)
            self._locks = _taken_at_last(self.state_dir)
        except BlockingIOError:
            raise self._held() from None
        except OSError as failure:
            raise ProjectUnwritable.because(failure, self.state_dir) from None
        try:
            self.describe(purpose=purpose)
        except BaseException:
            self.release()  # the kernel's lock would last as long as this process
            raise

    def describe(self, **facts: Any) -> None:
        """Say in the note who holds the project, and where it can be reached. Raises ProjectUnwritable."""
        body = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.time()}
        try:
            write_private(self.note, {**body, **facts})
        except OSError as failure:
            raise ProjectUnwritable.because(failure, self.note) from None

    def release(self) -> None:
        """Give the project back; harmless when it is not held."""
        if self._locks is None:
            return
        # What is left on a disk that takes nothing any more holds nothing.
        with contextlib.suppress(OSError):
            self.note.unlink()
        self._locks.close()
        self._locks = None

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
        _taken(state_dir, os.O_RDONLY, fcntl.LOCK_SH).close()
    except BlockingIOError:
        return note
    except FileNotFoundError:
        return None
    return None


def _taken_at_last(state_dir: Path) -> contextlib.ExitStack:
    """As `_taken`, past whoever only looks."""
    deadline = time.monotonic() + GLANCE_S
    while True:
        try:
            return _taken(state_dir)
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise
        time.sleep(GLANCE_S / 100)


def _taken(
    state_dir: Path, flags: int = os.O_RDWR | os.O_CREAT, kind: int = fcntl.LOCK_EX
) -> contextlib.ExitStack:
    """Both locks of a project; closing gives them back. Raises BlockingIOError when somebody has one."""
    with contextlib.ExitStack() as locks:
        folder = _opened(state_dir.parent, os.O_RDONLY, locks)
        try:
            fcntl.flock(folder, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            raise
        except OSError:
            pass  # network file systems lock files alone
        fcntl.flock(_opened(state_dir / "lock", flags, locks), kind | fcntl.LOCK_NB)
        return locks.pop_all()


def _opened(path: Path, flags: int, locks: contextlib.ExitStack) -> int:
    descriptor = os.open(path, flags, 0o600)
    locks.callback(os.close, descriptor)
    return descriptor


def _noted(path: Path) -> dict[str, Any] | None:
    """What stands in a note: nothing when it is no JSON object, None when there is no note."""
    try:
        body = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except ValueError:
        return {}
    return body if isinstance(body, dict) else {}
