"""What an agent says of its work: plain lines on stderr, each with the time."""

from __future__ import annotations

import sys
import threading
import time
from collections import deque
from typing import Protocol

FIRST_CHARS = 8_000
LAST_CHARS = 56_000
"""What is kept of a job's lines: how it began, and what led to its end."""


class Stream(Protocol):
    """What lines are written to. Whatever it raises of OSError and ValueError is passed over."""

    def write(self, text: str, /) -> object:
        """Write it."""

    def flush(self) -> object:
        """Let it be seen."""


class Record:
    """Lines, of which the first ones and the last ones are kept."""

    def __init__(self, first_chars: int = FIRST_CHARS, last_chars: int = LAST_CHARS) -> None:
        self._first: list[str] = []
        self._last: deque[str] = deque()
        self._first_left = first_chars
        self._last_left = last_chars
        self._n_left_out = 0

    def add(self, line: str) -> None:
        """Keep a line, in the place of older ones where there are too many."""
        n_chars = len(line) + 1
        if not self._last and n_chars <= self._first_left:
            self._first.append(line)
            self._first_left -= n_chars
            return
        self._last.append(line)
        self._last_left -= n_chars
        while self._last_left < 0 and len(self._last) > 1:
            self._last_left += len(self._last.popleft()) + 1
            self._n_left_out += 1

    def text(self) -> str:
        """What is kept, a line each, and between the two parts how much is not."""
        gap = [f"… {self._n_left_out} lines are left out here …"] if self._n_left_out else []
        return "".join(line + "\n" for line in (*self._first, *gap, *self._last))


class Voice:
    """Says lines, and keeps those of the job in hand: they are sent home with its end."""

    def __init__(self, stream: Stream | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._lock = threading.Lock()
        self._record = Record()

    def say(self, words: str) -> None:
        """Say a line, in the local time of this machine. Never fails: nobody may listen any more."""
        line = "{} {}".format(time.strftime("%Y-%m-%d %H:%M:%S"), " ".join(words.split()))
        with self._lock:
            self._record.add(line)
            try:
                self._stream.write(line + "\n")
                self._stream.flush()
            except (OSError, ValueError):
                pass  # the terminal was closed; the work goes on

    def begin_record(self) -> None:
        """Forget what was kept of the job before."""
        with self._lock:
            self._record = Record()

    def record(self) -> str:
        """What was said since `begin_record`, a line each, without the middle of much; "" for nothing."""
        with self._lock:
            return self._record.text()
