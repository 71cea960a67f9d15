"""The folder of a control socket: whoever can open that socket is logged in."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

# The folders are made by mkdtemp; another place may have too long a path for a socket.
TMP = Path("/tmp")  # noqa: S108
PREFIX = "pr-ssh-"
LOGIN_S = 3600.0
"""For so long a folder without a socket may still belong to a login."""
_ANSWER_S = 0.5


def new_folder() -> Path:
    """A private folder with a short path. Raises OSError.

    What is left of an ssh that was killed together with its keeper goes on this occasion.
    """
    _sweep()
    return Path(tempfile.mkdtemp(prefix=PREFIX, dir=TMP))


def control_path(folder: Path) -> Path:
    """The socket in it."""
    return folder / "c"


def _sweep() -> None:
    for folder in TMP.glob(f"{PREFIX}*"):
        try:
            details = folder.lstat()
            is_dead = details.st_uid == os.geteuid() and _is_dead(folder, time.time() - details.st_mtime)
        except OSError:
            continue  # it has just gone
        if is_dead:
            shutil.rmtree(folder, ignore_errors=True)


def _is_dead(folder: Path, age_s: float) -> bool:
    path = control_path(folder)
    if not path.exists():
        return age_s > LOGIN_S or _was_used(folder)
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(_ANSWER_S)
        return probe.connect_ex(str(path)) == errno.ECONNREFUSED


def _was_used(folder: Path) -> bool:
    """Whether it has what is put there once somebody is logged in; ssh's socket has a longer name first."""
    socket_name = control_path(folder).name
    return any(not path.name.startswith(socket_name) for path in folder.iterdir())
