"""A file read over SFTP with many requests under way, so that a long way to the host costs no time.

All in one thread, and so far ahead at most: paramiko's own reading ahead asks for a whole file at once, from
a second thread, and keeps what comes before its turn.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any, Final

BLOCK_BYTES: Final = 1 << 15
"""What every server answers in one piece."""
AHEAD: Final = 256
"""Requests under way: 8 MiB."""


def read_ahead(sftp: Any, handle: bytes, begin: int, end: int) -> Iterator[bytes]:
    """The bytes of an open file from `begin` to `end`, in order. `sftp` is a paramiko.SFTPClient.

    Raises EOFError where the file is shorter, OSError, TimeoutError, paramiko.SSHException. Whoever leaves it
    early closes `sftp`: its answers are still to come.
    """
    reads = _Reads(sftp, handle)
    asked: deque[tuple[int, int]] = deque()
    next_ask = begin
    while asked or next_ask < end:
        while next_ask < end and len(asked) < AHEAD:
            n_bytes = min(BLOCK_BYTES, end - next_ask)
            reads.ask(next_ask, n_bytes)
            asked.append((next_ask, n_bytes))
            next_ask += n_bytes
        at, n_bytes = asked.popleft()
        yield reads.take(at, n_bytes)


class _Reads:
    """The requests under way, and the answers that came before their turn."""

    def __init__(self, sftp: Any, handle: bytes) -> None:
        self._sftp = sftp
        self._handle = handle
        self._places: dict[int, int] = {}
        self._came: dict[int, bytes] = {}

    def ask(self, at: int, n_bytes: int) -> None:
        from paramiko.sftp import CMD_READ, int64  # type: ignore[import-untyped]

        number = self._sftp._async_request(self, CMD_READ, self._handle, int64(at), int(n_bytes))
        self._places[number] = at

    def take(self, at: int, n_bytes: int) -> bytes:
        """The bytes of one request; a server may send less than was asked for, and is asked for the rest."""
        taken = b""
        while len(taken) < n_bytes:
            here = at + len(taken)
            while here not in self._came:
                self._sftp._read_response()
            piece = self._came.pop(here)
            if not piece:
                raise EOFError
            taken += piece
            if len(taken) < n_bytes:
                self.ask(at + len(taken), n_bytes - len(taken))
        return taken[:n_bytes]

    def _async_response(self, kind: int, message: Any, number: int) -> None:
        """Called by paramiko with each answer."""
        from paramiko.sftp import CMD_DATA

        at = self._places.pop(number)
        if kind != CMD_DATA:
            self._sftp._convert_status(message)
            raise EOFError
        self._came[at] = message.get_string()
