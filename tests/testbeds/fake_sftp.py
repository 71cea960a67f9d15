"""A host's SFTP as paramiko would show it, in memory: hostile names, short answers, answers in any order."""

from __future__ import annotations

import stat
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

from paramiko import Message
from paramiko.sftp import CMD_DATA, CMD_STATUS, SFTP_EOF

FILE, FOLDER, LINK = stat.S_IFREG | 0o644, stat.S_IFDIR | 0o755, stat.S_IFLNK | 0o777


def entry(name: str, mode: int = FILE, size: int = 1) -> SimpleNamespace:
    """One line of a listing."""
    return SimpleNamespace(filename=name, st_mode=mode, st_size=size)


class FakeSftp:
    """`listed` answers the listing of a folder; `body` is what every file holds.

    An answer has `most` bytes at most; `newest_first` answers the newest request before the others.
    """

    def __init__(
        self,
        listed: Callable[[str], list[Any]] = lambda folder: [],
        body: bytes = b"",
        *,
        most: int = 1 << 15,
        newest_first: bool = False,
        said_size: int | None = None,
    ) -> None:
        self._listed, self._body, self._most = listed, body, most
        self._newest_first = newest_first
        self._size = len(body) if said_size is None else said_size
        self._requests: list[tuple[Any, int, int, int]] = []
        self.most_under_way = 0
        self.closed = False

    def listdir_attr(self, folder: str) -> list[Any]:
        return self._listed(folder)

    def lstat(self, path: str) -> SimpleNamespace:
        return entry(path, FILE, self._size)

    def normalize(self, path: str) -> str:
        return path

    def open(self, path: str, mode: str) -> _FakeFile:
        return _FakeFile(self._size)

    def close(self) -> None:
        self.closed = True

    def _async_request(self, reader: Any, kind: int, handle: bytes, at: int, n_bytes: int) -> int:
        number = len(self._requests) + int(at) * 7 + 1
        self._requests.append((reader, number, int(at), n_bytes))
        self.most_under_way = max(self.most_under_way, len(self._requests))
        return number

    def _read_response(self) -> None:
        reader, number, at, n_bytes = self._requests.pop(-1 if self._newest_first else 0)
        message = Message()
        piece = self._body[at : at + min(n_bytes, self._most)]
        if piece:
            message.add_string(piece)
            reader._async_response(CMD_DATA, Message(message.asbytes()), number)
            return
        message.add_int(SFTP_EOF)
        message.add_string("end of file")
        reader._async_response(CMD_STATUS, Message(message.asbytes()), number)

    @staticmethod
    def _convert_status(message: Message) -> None:
        if message.get_int() == SFTP_EOF:
            raise EOFError(message.get_text())


class _FakeFile:
    handle = b"1"

    def __init__(self, size: int) -> None:
        self._size = size

    def __enter__(self) -> _FakeFile:
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to close."""

    def stat(self) -> SimpleNamespace:
        return entry("", FILE, self._size)


class FakeConnection:
    """A login that has this SFTP; `login` is what HostFiles takes."""

    def __init__(self, sftp: FakeSftp) -> None:
        self._sftp = sftp
        self.closed = False

    def login(self, destination: object) -> Any:
        return self

    def sftp(self, *, stall_s: float) -> FakeSftp:
        return self._sftp

    def lost(self) -> None:
        return None

    def close(self) -> None:
        self.closed = True
