"""remote.json in a run folder: what the run has on a host, so that whoever follows it next finds it again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from potato_ray.job.folder import read_json, write_json

NAME: Final = "remote.json"


@dataclass(frozen=True)
class RemoteNote:
    """Written before the agent is let in. `cleared`: no process of the run is left on the host, and no file
    but those that stay; `files_removed`: those are gone as well."""

    host: str
    attempt: int
    remote_dir: str
    code: str
    python: str
    socket: str
    cleared: bool = False
    files_removed: bool = False


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
