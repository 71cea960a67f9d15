"""The connection to a host for short questions: it logs in when something is asked, and out after a while."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, TypeVar

from potato_ray.ssh import Connection, Destination, SshFailed, SshTimeout

T = TypeVar("T")

IDLE_S: Final = 60.0
"""A queue that waits for a GPU asks every few seconds; a login each time would look like an attack."""


class HostLine:
    """For any thread; questions come one after another. `login` opens a connection."""

    def __init__(
        self,
        destination: Destination,
        *,
        idle_s: float = IDLE_S,
        login: Callable[[Destination], Connection] = Connection.open,
    ) -> None:
        self._destination = destination
        self._idle_s = idle_s
        self._login = login
        self._lock = threading.Lock()
        self._connection: Connection | None = None
        self._logout: threading.Timer | None = None

    def ask(self, question: Callable[[Connection], T]) -> T:
        """The answer to a question. Raises SshFailed.

        Where a connection that was kept has died meanwhile, or is silent, it is asked again over a new one.
        """
        with self._lock:
            self._stay()
            try:
                return self._asked(question)
            finally:
                self._leave_later()

    def close(self) -> None:
        """Log out."""
        with self._lock:
            self._stay()
            self._hang_up()

    def _asked(self, question: Callable[[Connection], T]) -> T:
        kept = self._connection
        if kept is not None and kept.is_alive:
            try:
                return question(kept)
            except SshTimeout:
                pass  # a network that lets nothing through any more looks like this for a while
            except SshFailed:
                if kept.is_alive:
                    raise
        self._hang_up()
        self._connection = self._login(self._destination)
        return question(self._connection)

    def _stay(self) -> None:
        if self._logout is not None:
            self._logout.cancel()
            self._logout = None

    def _leave_later(self) -> None:
        if self._connection is None:
            return
        self._logout = threading.Timer(self._idle_s, self.close)
        self._logout.daemon = True
        self._logout.start()

    def _hang_up(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
