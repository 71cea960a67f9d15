"""A login that one process keeps and any number of them use: what its keeper has of it.

Who uses it holds a lock on a file in its folder, which the kernel takes from whoever dies. So nobody has to
be told of a use, and none is forgotten.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Final

from potato_ray.ssh.destination import Destination
from potato_ray.ssh.failures import SshFailed, could_not_start
from potato_ray.ssh.master import Master

CONNECT_S: Final = 2.0
_USE: Final = "u"


class SharedLogin:
    """Ends with its process, as a Master does. Raises SshFailed; Cancelled as soon as `stop` says so."""

    def __init__(self, destination: Destination, stop: Callable[[], bool] | None = None) -> None:
        self._master = Master(destination, stop)
        try:
            _use_file(self._master.folder).touch(mode=0o600)
        except OSError as error:
            self._master.close()
            raise could_not_start(destination.host, error) from error

    @property
    def control_path(self) -> str:
        """By which others join it."""
        return self._master.control_path

    @property
    def is_alive(self) -> bool:
        """Whether ssh runs and can be joined."""
        if not self._master.is_alive or not _use_file(self._master.folder).exists():
            return False
        try:
            connect(self.control_path).close()
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:
            pass  # one that is busy for a moment; what it carries must not be cut for that
        return True

    @property
    def is_used(self) -> bool:
        """Whether any process uses it."""
        descriptor = _locked_out(self._master.folder)
        if descriptor is not None:
            os.close(descriptor)
        return descriptor is None

    def lost(self, wait_s: float = 0.0) -> SshFailed | None:
        """Why it has ended, in ssh's words; None while it stands, and for so long from now on."""
        return self._master.lost(wait_s)

    def close_if_unused(self) -> bool:
        """Log out unless somebody uses it; nobody can join it meanwhile. Whether it was ended."""
        descriptor = _locked_out(self._master.folder)
        if descriptor is None:
            return False
        try:
            self._master.close()
        finally:
            os.close(descriptor)
        return True

    def close(self) -> None:
        """Log out, whoever uses it."""
        self._master.close()


def use(folder: Path) -> int:
    """Hold the login in that folder for as long as the descriptor is open. Raises OSError where it ends."""
    descriptor = os.open(_use_file(folder), os.O_RDWR | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def connect(control_path: str) -> socket.socket:
    """A connection to an ssh's control socket, which ends with that ssh. Raises OSError."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.settimeout(CONNECT_S)
        line.connect(control_path)
    except BaseException:
        line.close()
        raise
    return line


def _locked_out(folder: Path) -> int | None:
    """A descriptor that keeps all users out; None where there is one, or the folder has gone."""
    with contextlib.suppress(OSError):
        descriptor = os.open(_use_file(folder), os.O_RDWR | os.O_CLOEXEC)
        try:
            os.utime(descriptor)  # what tidies /tmp goes by age
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor
    return None


def _use_file(folder: Path) -> Path:
    return folder / _USE
