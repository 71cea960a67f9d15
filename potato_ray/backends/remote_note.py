"""remote.json in a run folder: what the run has on a host, so that whoever follows it next finds it again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from potato_ray.job.folder import read_json, write_json

NAME: Final = "remote.json"
LOCK: Final = ".remote.lock"
MOST_UNCLEARED: Final = 3
"""Runs that another one clears up behind."""


@dataclass(frozen=True)
class RemoteNote:
    """Written before the agent is let in. `cleared`: no process of the run is left on the host, and no file
    but those that stay; `files_removed`: those are gone as well. `outcome`: how the run ended, once that is
    known, in the fields of base.Outcome; `keep`: its folder there stays."""

    host: str
    attempt: int
    remote_dir: str
    code: str
    python: str
    socket: str
    cleared: bool = False
    files_removed: bool = False
    outcome: Mapping[str, Any] | None = None
    keep: bool = False


def read_note(folder: Path, attempt: int | None = None) -> RemoteNote | None:
    """The note of this attempt, or of any; None for none, or one that cannot be read."""
    try:
        note = RemoteNote(**(read_json(folder / NAME) or {}))
    except (OSError, ValueError, TypeError):
        return None
    return note if attempt in (None, note.attempt) else None


def write_note(folder: Path, note: RemoteNote) -> None:
    """Raises OSError."""
    write_json(folder / NAME, asdict(note))


@contextlib.contextmanager
def followed_here(folder: Path) -> Iterator[None]:
    """Let others know, for the length of a `with` block, that the run's host is being seen to."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError:
        yield  # a full disk, or the folder was removed: the run itself will say so
        return
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def uncleared(runs: Path, host: str, *, but: str) -> list[tuple[Path, RemoteNote]]:
    """Runs that are over, of which something may be left on that host and that nobody sees to, some of them.

    `runs` holds the runs' folders; `but` is the name of one that does not count.
    """
    found: list[tuple[Path, RemoteNote]] = []
    for path in sorted(runs.glob(f"*/{NAME}"), reverse=True):
        note = read_note(path.parent) if path.parent.name != but else None
        if note is None or note.cleared or note.outcome is None or note.host != host:
            continue
        if not is_followed(path.parent):
            found.append((path.parent, note))
    # By lot, so that a few that cannot be cleared don't keep the others from it for ever.
    return found if len(found) <= MOST_UNCLEARED else random.sample(found, MOST_UNCLEARED)


def is_followed(folder: Path) -> bool:
    """Whether the host of that run is being seen to, by any process on this machine."""
    try:
        descriptor = os.open(folder / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False
