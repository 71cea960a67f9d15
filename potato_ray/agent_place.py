"""Where a project's server answers agents on its own machine: a unix socket, in the state folder mostly."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

NAME = "agents.sock"
_NOTE = "agents.where"
_TROUBLE = "agents.trouble"


def note_place(state_dir: Path, path: Path) -> None:
    """Say where the socket is. Raises OSError."""
    (state_dir / _TROUBLE).unlink(missing_ok=True)
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


def note_trouble(state_dir: Path, words: str) -> None:
    """Say why there is no socket, if that can be written."""
    with contextlib.suppress(OSError):
        (state_dir / _TROUBLE).write_text(words, "utf-8")


def trouble_of(state_dir: Path) -> str:
    """Why there is no socket; "" where there is one."""
    try:
        return (state_dir / _TROUBLE).read_text("utf-8")
    except OSError:
        pass
    place = place_of(state_dir)
    return "" if place.exists() else f"{place} is not there."
