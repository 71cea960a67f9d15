"""The unix socket at which the routes of agents answer: for connections that ssh brings in, and nobody else.

It has mode 0600 and lies in a folder that only its owner can enter.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from pathlib import Path

from potato_ray.errors import PotatoRayError
from potato_ray.lock import private_folder

NAME = "agents.sock"
LONGEST_PATH = 100
"""Bytes; the kernel takes some 107, and ssh needs a few for its own."""
BACKLOG = 128


class AgentSocket:
    """A bound socket, until `close`."""

    def __init__(self, state_dir: Path) -> None:
        """Raises PotatoRayError (cannot_listen). The project's lock is held, so no other server is at it."""
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.path = private_folder(state_dir) / NAME
        self._own_folder: Path | None = None
        try:
            self._bind(self.path)
        except OSError:
            # The path is too long, or its file system has no sockets.
            self._own_folder = Path(tempfile.mkdtemp(prefix="potato-ray-"))
            self.path = self._own_folder / NAME
            self._bind_or_raise()

    def _bind_or_raise(self) -> None:
        try:
            self._bind(self.path)
        except OSError as failure:
            self.close()
            raise _cannot_listen(self.path, failure) from None

    def _bind(self, path: Path) -> None:
        if len(os.fsencode(path)) > LONGEST_PATH:
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        path.unlink(missing_ok=True)
        self.listener.bind(str(path))
        # The folder keeps everybody else out before this, too.
        path.chmod(0o600)
        self.listener.listen(BACKLOG)

    def close(self) -> None:
        """Take no more connections, and remove the socket."""
        self.listener.close()
        self.path.unlink(missing_ok=True)
        if self._own_folder is not None:
            shutil.rmtree(self._own_folder, ignore_errors=True)


def _cannot_listen(path: Path, failure: OSError) -> PotatoRayError:
    return PotatoRayError(
        "The server cannot listen on its socket for agents.",
        code="cannot_listen",
        evidence=f"{path}: {failure.strerror or type(failure).__name__}.",
        next_step="Look whether there is space in the folder for temporary files.",
    )
