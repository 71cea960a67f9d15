"""A bounded command: what goes in, what comes out, and its exit code, within a deadline."""

from __future__ import annotations

from dataclasses import dataclass

from potato_ray.ssh.channel import SSH_ITSELF, Channel
from potato_ray.ssh.deadline import Deadline
from potato_ray.ssh.failures import failed, too_slow
from potato_ray.ssh.script import MarkedScript

MAX_OUTPUT_BYTES = 1 << 25
_CODE_BYTES = 16
"""More than an exit code and the end of its line take."""
_END_S = 2.0


@dataclass(frozen=True)
class Answer:
    """What a command printed, and its exit code, as the host's sh gives it (128 + n after signal n)."""

    code: int
    out: bytes
    err: str

    @property
    def text(self) -> str:
        """`out` as text."""
        return self.out.decode("utf-8", "replace")


def answer(channel: Channel, marked: MarkedScript, given: bytes, deadline: Deadline) -> Answer:
    """Give a script that has begun its input, and take its output. Raises SshFailed, SshTimeout."""
    at = _exchange(channel, marked.end, given, deadline)
    if at is None:
        return _unfinished(channel, deadline)
    buffer = channel.pipes.buffer
    code = int(buffer[at + len(marked.end) : buffer.index(b"\n", at + len(marked.end))])
    channel.pipes.errors.wait_for(marked.end_mark, _END_S)
    return Answer(code, bytes(buffer[:at]), channel.err_tail.partition(marked.end.decode())[0])


def _exchange(channel: Channel, end: bytes, given: bytes, deadline: Deadline) -> int | None:
    """Send and receive until the end's whole line is there. Where it is; None if the output ended before."""
    pipes, left, looked = channel.pipes, memoryview(given), 0
    while True:
        at = pipes.buffer.find(end, looked)
        if at >= 0 and pipes.buffer.find(b"\n", at + len(end)) >= 0:
            return at
        if pipes.ended:
            return None
        if len(pipes.buffer) > MAX_OUTPUT_BYTES:
            raise failed(channel.host, "A command printed too much", "", "Look what it prints there by hand.")
        if deadline.passed:
            raise too_slow(channel.host, "A command did not end", deadline.timeout_s)
        if not left:
            pipes.end_input()
        looked = max(0, len(pipes.buffer) - len(end) - _CODE_BYTES)
        sent, _ = pipes.step(deadline.left_s, left)
        left = left[sent:]


def _unfinished(channel: Channel, deadline: Deadline) -> Answer:
    """The answer of a script that sh itself gave up (its syntax), or the error for one that was ended."""
    code = channel.wait(max(deadline.left_s, _END_S))
    if code == SSH_ITSELF:
        raise channel.why_ended()
    channel.pipes.errors.wait_for_end(_END_S)  # its words have a way of their own, and come later at times
    return Answer(code, bytes(channel.pipes.buffer), channel.err_tail)
