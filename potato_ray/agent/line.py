"""A connection whose every wait has an end: too long without a byte, past the deadline, or told to stop.

`http.client` reads and writes it as it does a socket. A timeout of a socket alone would not do: a peer that
sends one byte now and then keeps it waiting for ever, and nothing could end a long poll.
"""

from __future__ import annotations

import io
import select
import socket
import ssl
import time
from dataclasses import dataclass
from http.client import HTTPResponse
from typing import Any, Callable, cast

from potato_ray.agent.address import ServerAddress
from potato_ray.agent.errors import Stopped
from potato_ray.agent.patience import Stop

SLICE_S = 0.25
"""How soon a wait notices that it is to stop."""
BUFFER_BYTES = 256 * 1024
SENT_AT_ONCE_BYTES = 64 * 1024
"""The pace of sending is that of such pieces."""
_PEEK_BYTES = 4096


class TooSlow(OSError):
    """The peer has not answered, sent or taken anything for as long as it may."""


class ProxyRefused(OSError):
    """The proxy does not lead to the server; the text says why."""


@dataclass(frozen=True)
class Patient:
    """How long an exchange waits: `pace_s` without a byte, `total_s` for all of it (None: no limit).

    Sending has moved when the line has taken SENT_AT_ONCE_BYTES, or what is left of a body.
    """

    pace_s: float
    total_s: float | None = None
    behind_s: float = 0.0
    """The answer, and so the whole, may come later by this: what was sent may lie in buffers."""


class Line:
    """One connection. `begin` sets the limits of the next exchange on it. For one thread at a time."""

    def __init__(self, sock: socket.socket, clock: Callable[[], float] = time.monotonic) -> None:
        self._sock = sock
        self._clock = clock
        self._early = b""
        self.begin(Patient(60.0))

    def begin(self, patient: Patient, stop: Stop | None = None) -> None:
        """Set the limits of what follows; the deadline counts from now."""
        self._pace_s = patient.pace_s
        self._answer_s = patient.pace_s + patient.behind_s
        total_s = patient.total_s
        self._ends_at = None if total_s is None else self._clock() + total_s + patient.behind_s
        self._stop = stop

    def sendall(self, data: bytes) -> None:
        """Send all of `data`. Raises TooSlow, Stopped, OSError."""
        # In pieces: the timeout of a socket is for the whole of what one call sends.
        view = memoryview(data)
        for begin in range(0, len(view), SENT_AT_ONCE_BYTES):
            self._check_stop()
            self._sock.settimeout(self._left(self._clock(), self._pace_s))
            try:
                self._sock.sendall(view[begin : begin + SENT_AT_ONCE_BYTES])
            except socket.timeout as late:
                raise TooSlow("it took too little of what was sent") from late

    def receive_into(self, buffer: Any) -> int:
        """Fill the beginning of `buffer`; 0 at the end. Raises TooSlow, Stopped, OSError."""
        if self._early:
            taken = self._early[: len(buffer)]
            self._early = self._early[len(taken) :]
            buffer[: len(taken)] = taken
            return len(taken)
        waiting_since = self._clock()
        while True:
            self._check_stop()
            left = self._left(waiting_since, self._answer_s)
            self._sock.settimeout(left if self._stop is None else min(left, SLICE_S))
            try:
                return self._sock.recv_into(buffer)
            except socket.timeout:
                continue

    def has_answer(self) -> bool:
        """Whether the peer has sent something, or hung up, without waiting for it."""
        if self._early:
            return True
        if not select.select([self._sock], [], [], 0)[0]:
            return False
        self._sock.settimeout(0)
        try:
            # Under TLS what has come may be for the library alone, such as a session ticket.
            self._early = self._sock.recv(_PEEK_BYTES)
        except (BlockingIOError, ssl.SSLWantReadError):
            return False
        except OSError:
            pass  # it will say so to whoever reads next
        return True

    def is_quiet(self) -> bool:
        """Whether the line can serve another exchange: nothing has come that nobody asked for."""
        try:
            return not self.has_answer()
        except (OSError, ValueError):
            return False

    def secure(self, context: ssl.SSLContext, host: str) -> None:
        """Go on under TLS. Raises ssl.SSLError, OSError."""
        self._sock.settimeout(self._left(self._clock(), self._pace_s))
        self._sock = context.wrap_socket(self._sock, server_hostname=host)

    def makefile(self, mode: str, *_: object) -> io.BufferedReader:
        """For http.client: what reads the answer."""
        return io.BufferedReader(_Incoming(self), BUFFER_BYTES)

    def close(self) -> None:
        """For http.client, which closes while the body is still to be read: nothing. See hang_up."""

    def hang_up(self) -> None:
        """End the connection."""
        self._sock.close()

    def _check_stop(self) -> None:
        if self._stop is not None and self._stop.is_set():
            raise Stopped("The agent was told to stop while it talked to the server.")

    def _left(self, waiting_since: float, longest_s: float) -> float:
        """Seconds that the next wait may still take. Raises TooSlow when there are none."""
        now = self._clock()
        left = waiting_since + longest_s - now
        if self._ends_at is not None:
            left = min(left, self._ends_at - now)
        if left <= 0:
            raise TooSlow("it did not answer in time")
        return left


class _Incoming(io.RawIOBase):
    """The receiving end of a line as a file."""

    def __init__(self, line: Line) -> None:
        self._line = line

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._line.receive_into(buffer)


def open_line(address: ServerAddress, context: ssl.SSLContext | None, connect_s: float) -> Line:
    """Connect to the server, through its proxy where it has one. Raises OSError of every kind.

    `connect_s` holds for each step: connecting to each address of the host, the proxy's answer, TLS.
    """
    if address.socket_path:
        return _open_socket(address.socket_path, connect_s)
    first = address.proxy.endpoint if address.proxy else address.endpoint
    sock = socket.create_connection((first.host, first.port), connect_s)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    line = Line(sock)
    try:
        line.begin(Patient(connect_s, connect_s))
        if address.proxy and address.is_tls:
            _tunnel(line, address)
            line.begin(Patient(connect_s, connect_s))
        if context is not None:
            line.secure(context, address.endpoint.host)
    except BaseException:
        line.hang_up()
        raise
    return line


def _open_socket(path: str, connect_s: float) -> Line:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.settimeout(connect_s)
        sock.connect(path)
    except BaseException:
        sock.close()
        raise
    return Line(sock)


def _tunnel(line: Line, address: ServerAddress) -> None:
    """Ask the proxy for a way to the server. Raises ProxyRefused."""
    target = address.endpoint.authority
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if address.proxy and address.proxy.authorization:
        lines.append(f"Proxy-Authorization: {address.proxy.authorization}")
    line.sendall("\r\n".join([*lines, "", ""]).encode("ascii"))
    answer = HTTPResponse(cast(socket.socket, line), method="CONNECT")
    answer.begin()
    if answer.status != 200:
        raise ProxyRefused(f"the proxy answered {answer.status} to CONNECT")
