"""Reads a pipe as long as there is somebody at its other end, and keeps the last of what came."""

from __future__ import annotations

import os
import select
import threading
from typing import IO

KEEP_BYTES = 1 << 18
_PIECE_BYTES = 1 << 16
_JOIN_S = 2.0


class Tail:
    """Drains `source`, in a thread, so that its writer never blocks. Closes it."""

    def __init__(self, source: IO[bytes]) -> None:
        self._source = source
        self._kept = bytearray()
        self._news = threading.Condition()
        self._ended = self._closed = False
        self._wake_reading, self._wake_writing = os.pipe()
        self._thread = threading.Thread(target=self._drain, name="ssh-stderr", daemon=True)
        self._thread.start()

    @property
    def text(self) -> str:
        """What is kept, as text."""
        with self._news:
            return self._kept.decode("utf-8", "replace")

    def wait_for(self, mark: str, timeout_s: float) -> bool:
        """Whether `mark` comes within the time."""
        wanted = mark.encode()
        with self._news:
            self._news.wait_for(lambda: wanted in self._kept or self._ended, timeout_s)
            return wanted in self._kept

    def wait_for_end(self, timeout_s: float) -> bool:
        """Whether the pipe's other end is closed within the time."""
        with self._news:
            return self._news.wait_for(lambda: self._ended, timeout_s)

    def close(self) -> None:
        """Stop reading. Another process may still hold the other end: its end is not waited for."""
        with self._news:
            if self._closed:
                return
            self._closed = True
        os.write(self._wake_writing, b"x")
        self._thread.join(_JOIN_S)
        self._source.close()
        os.close(self._wake_reading)
        os.close(self._wake_writing)

    def _drain(self) -> None:
        descriptor = self._source.fileno()
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.register(self._wake_reading, select.POLLIN)
        stopped = False
        while not stopped:
            ready = {found for found, _ in poll.poll()}
            stopped = self._wake_reading in ready
            if descriptor in ready:
                stopped = not self._take(os.read(descriptor, _PIECE_BYTES)) or stopped
        with self._news:
            self._ended = True
            self._news.notify_all()

    def _take(self, piece: bytes) -> bool:
        with self._news:
            self._kept += piece
            del self._kept[:-KEEP_BYTES]
            self._news.notify_all()
        return bool(piece)
