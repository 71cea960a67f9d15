"""A command that runs on the host for as long as it likes, and the two streams to and from it."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Iterator

from potato_ray.errors import Cancelled
from potato_ray.ssh.deadline import Deadline
from potato_ray.ssh.failures import SshFailed, channel_failure, command_not_run, explain, failed, too_slow
from potato_ray.ssh.pipes import Pipes
from potato_ray.ssh.script import MarkedScript

REFUSED = "Session open refused by peer"
"""What a channel says where the connection has its `MaxSessions` already."""
SSH_ITSELF = 255
MAX_LINE_BYTES = 1 << 22
_QUOTED_BYTES = 2000
_BAIT_EVERY_S = 1.0
_END_S = 2.0
_LOOK_EVERY_S = 0.2
"""At whether a wait is to end."""


def _never() -> bool:
    return False


class Channel:
    """`ways` are the processes that may carry it, the next one being tried where a session is refused.

    `lost` says whether, and why, there is no connection any more within so many seconds. One thread may use
    a channel at a time, apart from `poll`. All times are in seconds; after an SshTimeout a read can be asked
    for again.
    """

    def __init__(
        self,
        host: str,
        marked: MarkedScript,
        ways: Iterator[Pipes],
        lost: Callable[[float], SshFailed | None],
        stop: Callable[[], bool] = _never,
    ) -> None:
        self.host = host
        self._marked = marked
        self._ways = ways
        self._lost = lost
        self._stop = stop
        self.pipes = next(ways)
        self._noise = bytearray()

    def __enter__(self) -> Channel:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def err_tail(self) -> str:
        """The last of what came on stderr, the login's noise left out."""
        text = self.pipes.errors.text
        return text.rpartition(f"\n{self._marked.mark}\n")[2]

    @property
    def ended(self) -> bool:
        """Whether the output has ended; what was read ahead may still be there."""
        return self.pipes.ended

    def wait_for_sentinel(self, timeout_s: float) -> None:
        """Wait until the script itself runs; only then may anything be sent. Raises SshFailed, SshTimeout."""
        deadline = Deadline(timeout_s)
        while not self._found(self._marked.begin, deadline):
            self._noise += self.pipes.buffer
            self.pipes.wait(_END_S)
            self._take_another_way()
        if self._marked.takes_input:
            self.send(self._marked.go, max(deadline.left_s, 1.0))

    def send(self, data: bytes, timeout_s: float) -> None:
        """Send all of it, however much comes back meanwhile.

        Raises SshTimeout when nothing moves for the time.
        """
        left = memoryview(data)
        deadline = Deadline(timeout_s)
        while left:
            sent, came = self._step(deadline.left_s, left)
            left = left[sent:]
            if not self.pipes.input_is_open:
                raise self.why_ended()
            if sent or came:
                deadline = Deadline(timeout_s)
            elif deadline.passed:
                raise too_slow(self.host, "It took nothing of what was sent", timeout_s)

    def end_input(self) -> None:
        """Let the command see the end of its input."""
        self.pipes.end_input()

    def read_line(self, timeout_s: float) -> bytes | None:
        """The next line without its end; None after the last whole one. Raises SshTimeout, SshFailed."""
        deadline, looked = Deadline(timeout_s), 0
        buffer = self.pipes.buffer
        self._heed()
        while (at := buffer.find(b"\n", looked)) < 0:
            looked = len(buffer)
            if looked > MAX_LINE_BYTES:
                raise failed(
                    self.host,
                    "It sent a line without end",
                    "",
                    "Look what prints on the command's output there.",
                )
            if self.pipes.ended:
                return None
            self._wait_for_more(deadline, "It sent no line")
        return self._take(at + 1)[:-1]

    def read(self, n_bytes: int, timeout_s: float) -> bytes:
        """Up to so many bytes, at least one; b"" at the end. Raises SshTimeout."""
        deadline = Deadline(timeout_s)
        self._heed()
        while not self.pipes.buffer and not self.pipes.ended:
            self._wait_for_more(deadline, "It sent nothing")
        return self._take(n_bytes)

    def stream(self, stall_s: float) -> io.BufferedReader:
        """The rest of the output as a file. Raises SshTimeout when nothing comes for `stall_s`."""
        return io.BufferedReader(_Output(self, stall_s), 1 << 18)

    def poll(self) -> int | None:
        """The exit code, None while it runs; 255 is ssh's own failure, or a command that was killed."""
        return self.pipes.poll()

    def wait(self, timeout_s: float) -> int:
        """The exit code of a command whose output has ended. Raises SshTimeout."""
        code = self.pipes.wait(timeout_s)
        if code is None:
            raise too_slow(self.host, "The command did not end", timeout_s)
        return code

    def why_ended(self) -> SshFailed:
        """The error for a command that ended when it should not have."""
        code = self.pipes.wait(_END_S)
        self.pipes.errors.wait_for_end(_END_S)
        lost = self._lost(_END_S) if code == SSH_ITSELF else None
        if lost is not None:
            return lost
        words = self.err_tail.strip()
        return SshFailed(
            f"ssh to {self.host} failed: The command ended there before its time",
            evidence=f"Exit code {code}; last words: {words[-_QUOTED_BYTES:] or '(none)'}",
            next_step=f"Look on {self.host} what ended it: memory, a limit of the account, a restart.",
        )

    def close(self) -> None:
        """End it on this side; over there it sees the end of its input, and no one reads what it prints."""
        self.pipes.close()
        self._ways = iter(())

    def _step(self, timeout_s: float, outgoing: memoryview | bytes = b"") -> tuple[int, bool]:
        """Move what can be moved, a little at a time. Raises Cancelled."""
        self._heed()
        return self.pipes.step(min(timeout_s, _LOOK_EVERY_S), outgoing)

    def _heed(self) -> None:
        if self._stop():
            raise Cancelled(f"What was under way with {self.host} was given up on request.")

    def _take(self, n_bytes: int) -> bytes:
        return self.pipes.take(n_bytes)

    def _wait_for_more(self, deadline: Deadline, what: str) -> None:
        _, came = self._step(deadline.left_s)
        if not came and not self.pipes.ended and deadline.passed:
            raise too_slow(self.host, what, deadline.timeout_s)

    def _found(self, mark: bytes, deadline: Deadline) -> bool:
        """Read up to and with the mark; False when the output ends without it."""
        buffer, bait_at = self.pipes.buffer, time.monotonic() + _BAIT_EVERY_S
        while (at := buffer.find(mark)) < 0:
            if self.pipes.ended:
                return False
            self._drop_noise(len(mark))
            if deadline.passed:
                raise self._silent(deadline.timeout_s)
            if self._marked.takes_input and time.monotonic() >= bait_at:
                # A start-up file may be waiting for a line of ours; the script skips all but its own.
                self.pipes.step(0.0, b"\n")
                bait_at += _BAIT_EVERY_S
            self._step(min(deadline.left_s, max(0.0, bait_at - time.monotonic())))
        del buffer[: at + len(mark)]
        return True

    def _drop_noise(self, keep: int) -> None:
        surplus = len(self.pipes.buffer) - keep
        if surplus > 0:
            self._noise += self._take(surplus)
            del self._noise[_QUOTED_BYTES:]

    def _silent(self, timeout_s: float) -> SshFailed:
        error = too_slow(self.host, "It did not begin the command", timeout_s)
        said = (
            bytes(self._noise + self.pipes.buffer).decode("utf-8", "replace") + self.pipes.errors.text
        ).strip()
        error.evidence = f"Until then came: {said[-_QUOTED_BYTES:]}" if said else ""
        return error

    def _take_another_way(self) -> None:
        """Go on with another process where this one was refused its session; else raise what is wrong."""
        self.pipes.errors.wait_for_end(_END_S)
        words, code = self.pipes.errors.text, self.pipes.poll()
        another = next(self._ways, None) if code == SSH_ITSELF and REFUSED in words else None
        if another is not None:
            self.pipes.close()
            self.pipes = another
            return
        is_refused = REFUSED in words
        raise self._lost(_END_S if code == SSH_ITSELF and not is_refused else 0.0) or self._not_run(
            words, code
        )

    def _not_run(self, words: str, code: int | None) -> SshFailed:
        noise = bytes(self._noise).decode("utf-8", "replace")
        if code == SSH_ITSELF or "base64" in words:
            return channel_failure(self.host, words, code)
        said = noise + words
        if "This account is" in said:
            return explain(self.host, said, code=code)
        return command_not_run(self.host, said, code)


class _Output(io.RawIOBase):
    """The output of a channel as a file."""

    def __init__(self, channel: Channel, stall_s: float) -> None:
        self._channel = channel
        self._stall_s = stall_s

    def readable(self) -> bool:
        return True

    def readinto(self, target: memoryview, /) -> int:  # type: ignore[override]
        piece = self._channel.read(len(target), self._stall_s)
        target[: len(piece)] = piece
        return len(piece)
