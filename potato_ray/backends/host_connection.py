"""The way to a host and back: a login, and a socket over there whose requests come out at the server."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from pathlib import Path

from potato_ray.backends.grants import Login
from potato_ray.ssh import Connection, Destination, SshFailed


class HostConnection:
    """Made anew by `connect` as often as it is needed.

    One thread at a time, but for `is_connected` and `break_off`.
    """

    def __init__(self, destination: Destination, host: str, login: Login | None = None) -> None:
        self.host = host
        self._destination = destination
        self._login = login or Connection.open
        self._connection: Connection | None = None
        self._forwarded = ""

    @property
    def is_connected(self) -> bool:
        return self._connection is not None and self._connection.is_alive

    @property
    def was_lost(self) -> bool:
        """Whether the host has let us in, and the connection ended since."""
        return self._connection is not None and not self._connection.is_alive

    @property
    def line(self) -> Connection:
        """Raises SshFailed where there is none."""
        if self._connection is None:
            raise SshFailed(f"ssh to {self.host} failed: There is no connection")
        return self._connection

    def why_lost(self) -> str:
        """In ssh's words, why there is no connection."""
        lost = self._connection.lost() if self._connection is not None else None
        return str(lost) if lost is not None else ""

    def connect(self, stop: Callable[[], bool]) -> None:
        """Log in, and out of what was before. Raises SshFailed; Cancelled once `stop` says so."""
        self.close()
        self._connection = self._login(self._destination, stop)

    def close(self) -> None:
        """Log out; what runs over there runs on."""
        self._forwarded = ""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def break_off(self) -> None:
        """End whatever waits for the host in another thread: the connection goes."""
        if self._connection is not None:
            self._connection.close()

    def forward(self, remote_socket: str, near: Path) -> None:
        """Let what connects to a socket over there come out at `near`, by a short path without surprises.

        The forward before it ends. Raises SshFailed.
        """
        line = self.line
        way_in = line.folder / "s"
        if self._forwarded:
            # The same one asked for again would be granted, and nothing made.
            with contextlib.suppress(SshFailed):
                line.cancel_forward(self._forwarded, str(way_in))
        else:
            way_in.symlink_to(near.absolute())
        self._forwarded = remote_socket
        line.forward(remote_socket, str(way_in))
