"""What an agent says of its work: plain lines on stderr, each with the time."""

from __future__ import annotations

import sys
import threading
import time
from typing import Protocol

RECORD_CHARS = 64_000


class Stream(Protocol):
    """What lines are written to. Whatever it raises of OSError and ValueError is passed over."""

    def write(self, text: str, /) -> object:
        """Write it."""

    def flush(self) -> object:
        """Let it be seen."""


class Voice:
    """Says lines, and keeps those of the job in hand: they are sent home with its end."""

    def __init__(self, stream: Stream | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()
        self._lines: list[str] = []
        self._chars = 0

    def say(self, words: str) -> None:
        """Say a line, in the local time of this machine. Never fails: nobody may listen any more."""
        line = "{} {}".format(time.strftime("%Y-%m-%d %H:%M:%S"), " ".join(words.split()))
        with self._lock:
            if self._chars < RECORD_CHARS:
                self._lines.append(line)
                self._chars += len(line) + 1
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                pass  # the terminal was closed; the work goes on

    def begin_record(self) -> None:
        """Forget what was kept of the job before."""
        with self._lock:
            self._lines, self._chars = [], 0

    def record(self) -> str:
        """What was said since `begin_record`, a line each; "" for nothing."""
        with self._lock:
            return "".join(line + "\n" for line in self._lines)
