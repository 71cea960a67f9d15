"""SFTP over a channel: the object that paramiko takes for its socket."""

from __future__ import annotations

from potato_ray.ssh.deadline import Deadline
from potato_ray.ssh.pipes import Pipes

_SLICE_S = 0.2


class SftpPipe:
    """paramiko's own sockets would wait for ever; this one gives up after `stall_s` without a byte.

    Once it has given up it stays so: paramiko asks again when it closes a file, and would wait anew.
    """

    def __init__(self, pipes: Pipes, stall_s: float) -> None:
        self.pipes = pipes
        self._stall_s = stall_s
        self._stalled = False

    def send(self, data: bytes) -> int:
        """As a socket's. Raises TimeoutError after a stall, BrokenPipeError after the end."""
        deadline = self._deadline()
        while self.pipes.input_is_open:
            sent, came = self.pipes.step(deadline.left_s, data)
            if sent:
                return sent
            if came:
                deadline = self._deadline()
            elif deadline.passed:
                raise self._stall()
        raise BrokenPipeError("the SFTP channel has ended")

    def recv(self, n_bytes: int) -> bytes:
        """As a socket's; b"" at the end. Raises TimeoutError after a stall."""
        deadline = self._deadline()
        while not self.pipes.buffer and not self.pipes.ended:
            # In slices: paramiko sends from a second thread when it reads ahead, and that may take it in.
            _, came = self.pipes.step(min(deadline.left_s, _SLICE_S))
            if not (came or self.pipes.buffer or self.pipes.ended) and deadline.passed:
                raise self._stall()
        return self.pipes.take(n_bytes)

    def recv_ready(self) -> bool:
        """Whether something can be read at once."""
        if not self.pipes.buffer and not self.pipes.ended:
            self.pipes.step(0.0)
        return bool(self.pipes.buffer)

    def settimeout(self, timeout_s: float | None) -> None:
        """A socket has it; the stall limit stays as it is."""

    def gettimeout(self) -> float:
        """The stall limit in seconds."""
        return self._stall_s

    def get_name(self) -> str:
        """What paramiko calls it in its log."""
        return "ssh"

    def close(self) -> None:
        """End the channel."""
        self.pipes.close()

    def _deadline(self) -> Deadline:
        if self._stalled:
            raise self._stall()
        return Deadline(self._stall_s)

    def _stall(self) -> TimeoutError:
        self._stalled = True
        return TimeoutError(f"the host sent nothing for {self._stall_s:g} s")
