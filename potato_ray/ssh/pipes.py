"""An ssh process with its three pipes, none of which can block another."""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import subprocess
import threading
from collections.abc import Mapping, Sequence
from typing import IO, cast

from potato_ray.ssh.tail import Tail

MAX_BUFFER_BYTES = 1 << 26
"""What is read ahead while something is being sent; with more than this the other side has to wait."""
_PIECE_BYTES = 1 << 18
_PIPE_BYTES = 1 << 20
_END_S = 3.0


class Pipes:
    """One thread may use it at a time, or one send while another reads; `poll` and `kill` are for any."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=environment,
            start_new_session=True,
        )
        self._input = cast(IO[bytes], self._process.stdin)
        self._output = cast(IO[bytes], self._process.stdout)
        os.set_blocking(self._input.fileno(), False)
        os.set_blocking(self._output.fileno(), False)
        _widen(self._output.fileno())
        self.errors = Tail(cast(IO[bytes], self._process.stderr))
        self.buffer = bytearray()
        self.ended = False
        self._taking_in = threading.Lock()

    @property
    def input_is_open(self) -> bool:
        """Whether something can still be sent, as far as is known."""
        return not self._input.closed

    def poll(self) -> int | None:
        """The exit code of ssh, None while it runs."""
        return self._process.poll()

    def wait(self, timeout_s: float) -> int | None:
        """The exit code of ssh, None if it still runs after that time."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self._process.wait(timeout_s)
        return None

    def step(self, timeout_s: float, outgoing: memoryview | bytes = b"") -> tuple[int, bool]:
        """Move what can be moved: outgoing bytes out, incoming ones into `buffer`.

        Waits up to `timeout_s` for something to move. Returns how many bytes went out, and whether any
        came in. After the last incoming byte `ended` is True; when nobody takes our bytes any more,
        `input_is_open` is False.
        """
        sending, reading = bool(outgoing) and self.input_is_open, self._wants_more
        poll = select.poll()
        if sending:
            poll.register(self._input.fileno(), select.POLLOUT)
        if reading:
            poll.register(self._output.fileno(), select.POLLIN)
        ready = {found for found, _ in poll.poll(timeout_s * 1000)}
        sent = self._write(outgoing) if sending and self._input.fileno() in ready else 0
        came = self._read() if reading and self._output.fileno() in ready else False
        return sent, came

    def take(self, n_bytes: int) -> bytes:
        """The first of what was read, taken out of `buffer`."""
        with self._taking_in:
            with memoryview(self.buffer) as view:
                taken = view[:n_bytes].tobytes()
            del self.buffer[:n_bytes]
        return taken

    def end_input(self) -> None:
        """Let the other side see the end of its input."""
        with contextlib.suppress(OSError):
            self._input.close()

    def kill(self) -> None:
        """End ssh; whoever reads then sees the end."""
        if self.poll() is None:
            self._process.terminate()
        if self.wait(_END_S) is None:
            self._process.kill()
            self.wait(_END_S)

    def close(self) -> None:
        """End ssh and close the pipes."""
        self.kill()
        self.end_input()
        self.ended = True
        self._output.close()
        self.errors.close()

    @property
    def _wants_more(self) -> bool:
        return not self.ended and len(self.buffer) < MAX_BUFFER_BYTES

    def _write(self, outgoing: memoryview | bytes) -> int:
        try:
            return os.write(self._input.fileno(), outgoing[:_PIECE_BYTES])
        except BlockingIOError:
            return 0
        except OSError:
            self.end_input()
            return 0

    def _read(self) -> bool:
        with self._taking_in:  # what a sender and a reader take in stays in its order
            try:
                piece = os.read(self._output.fileno(), _PIECE_BYTES)
            except BlockingIOError:
                return False
            self.buffer += piece
            self.ended = not piece
        return bool(piece)


def _widen(descriptor: int) -> None:
    """Let the pipe hold more than its usual 64 KiB: a copy of hundreds of MB is woken less often."""
    with contextlib.suppress(OSError, AttributeError):  # more than a limit allows, or not on Linux
        fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, _PIPE_BYTES)
