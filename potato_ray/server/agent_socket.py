"""The unix socket at which the routes of agents answer: for connections that ssh brings in, and nobody else.

It has mode 0600 and lies in a folder that only its owner can enter. Whoever gets in is an agent and nothing
else: it has an application of its own, in which there are no admins.
"""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.agent_place import NAME, note_place, note_trouble
from potato_ray.errors import PotatoRayError
from potato_ray.lock import private_folder

if TYPE_CHECKING:
    from potato_ray.config.models import ModelTraining
    from potato_ray.server.context import ServerContext

LONGEST_PATH = 100
"""Bytes; the kernel takes some 107, and ssh needs a few for its own."""
BACKLOG = 128
_WITH_AGENTS = frozenset({"agent", "ssh", "slurm"})
"""The types of backends whose runs come home by an agent."""


def is_wanted(training: ModelTraining) -> bool:
    """Whether a project has any use for agents."""
    return training.enabled and any(each.type in _WITH_AGENTS for each in training.backends.values())


class AgentListening:
    """Answers agents at the socket from `start` to `stop`. `ended` is called when that ends by itself."""

    def __init__(self, context: ServerContext, ended: Callable[[], None]) -> None:
        """Raises PotatoRayError (cannot_listen)."""
        from potato_ray.server.agent_app import agent_app
        from potato_ray.server.listening import Listening

        self._socket = AgentSocket(context.config.state_dir)
        self.path = self._socket.path
        self._listening = Listening(agent_app(context), self._socket.listener, ended)

    def start(self) -> None:
        """Returns once requests are answered. Raises PotatoRayError (cannot_listen)."""
        try:
            self._listening.start()
        except BaseException:
            self._socket.close()
            raise

    def stop(self) -> None:
        """Answer nothing more, and remove the socket."""
        self._listening.stop()
        self._socket.close()


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
            self._bind_or_raise(state_dir)
        try:
            note_place(state_dir, self.path)
        except OSError as failure:
            raise self._cannot_listen(state_dir, failure) from None

    def _bind_or_raise(self, state_dir: Path) -> None:
        try:
            self._bind(self.path)
        except OSError as failure:
            raise self._cannot_listen(state_dir, failure) from None

    def _cannot_listen(self, state_dir: Path, failure: OSError) -> PotatoRayError:
        """The error, noted for runs that need the socket."""
        self.close()
        error = _cannot_listen(self.path, failure)
        note_trouble(state_dir, error.evidence)
        return error

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
