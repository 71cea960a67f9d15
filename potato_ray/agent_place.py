"""Where a project's server answers agents on its own machine: a unix socket, in the state folder mostly."""

from __future__ import annotations

import os
from pathlib import Path

NAME = "agents.sock"
_NOTE = "agents.where"


def note_place(state_dir: Path, path: Path) -> None:
    """Say where the socket is. Raises OSError."""
    note = state_dir / _NOTE
    if path == state_dir / NAME:
        note.unlink(missing_ok=True)
        return
    aside = state_dir / f".{_NOTE}.{os.getpid()}"
    aside.write_text(str(path), "utf-8")
    aside.replace(note)


def place_of(state_dir: Path) -> Path:
    """Where the socket is, or would be if there was a server."""
    try:
        return Path((state_dir / _NOTE).read_text("utf-8"))
    except OSError:
        return state_dir / NAME
