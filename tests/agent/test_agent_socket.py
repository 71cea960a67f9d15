"""A server behind a unix socket, as ssh forwards it: the same requests, without proxy and TLS."""

from __future__ import annotations

import os
import socket
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from potato_ray.agent.address import LONGEST_SOCKET_BYTES, parse_address
from potato_ray.agent.connection import ServerConnection
from potato_ray.agent.errors import AgentMisconfigured, ServerUnreachable

ANSWER = b"HTTP/1.1 204 No Content\r\nPotato-Ray-Protocol: 1\r\n\r\n"
CUT = b""
"""No answer, and the end of the connection."""


@pytest.fixture
def path() -> Iterator[str]:
    """Where a socket can be; pytest's own folders have too long paths."""
    with tempfile.TemporaryDirectory(prefix="pr-", dir="/tmp") as folder:
        yield f"{folder}/s"


class Behind:
    """Listens at a path and gives each connection the same answer; None: takes it, and says nothing."""

    def __init__(self, path: str, answer: bytes | None = ANSWER) -> None:
        self._answer = answer
        self.seen: list[bytes] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(path)
        self._listener.listen()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self) -> Behind:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._thread.join(5.0)
        self._listener.close()

    def _serve(self) -> None:
        held = []
        while True:
            try:
                connection = self._listener.accept()[0]
            except OSError:
                break
            held.append(connection)
            self.seen.append(whole_request(connection))
            if self._answer is not None:
                connection.sendall(self._answer)
            if self._answer == CUT:
                connection.close()
        for each in held:
            each.close()


def whole_request(connection: socket.socket) -> bytes:
    """Head and body, which may come apart: who hangs up between the two is told of a broken pipe."""
    with connection.makefile("rb") as file:
        head = b""
        while not head.endswith(b"\r\n\r\n") and (line := file.readline()):
            head += line
        length = next(line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
        return head + file.read(int(length.partition(b":")[2]))


def claim(path: str, **limits: float) -> object:
    connection = ServerConnection(f"unix:{path}", "prt_x", **limits)
    try:
        return connection.claim("11", 0.0, {})
    finally:
        connection.close()


def test_a_request_goes_over_the_socket_with_a_host_and_no_proxy(path, monkeypatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example.org:3128")
    with Behind(path) as behind:
        assert claim(path) is None
    head = behind.seen[0].split(b"\r\n\r\n")[0]
    assert head.startswith(b"POST /api/training/jobs/claim HTTP/1.1\r\nHost: localhost\r\n")
    assert b"Authorization: Bearer prt_x" in head


def test_where_no_socket_is_the_request_may_succeed_later(path) -> None:
    with pytest.raises(ServerUnreachable) as missing:
        claim(path)
    assert missing.value.message == f"unix:{path} cannot be reached: No such file or directory."


def test_a_socket_that_nobody_listens_at_is_unreachable(path) -> None:
    with Behind(path):
        pass
    with pytest.raises(ServerUnreachable, match="Connection refused"):
        claim(path)


def test_a_connection_that_is_cut_is_unreachable(path) -> None:
    with Behind(path, CUT), pytest.raises(ServerUnreachable, match="hung up without an answer"):
        claim(path)


def test_a_socket_that_takes_a_request_and_never_answers_is_given_up(path) -> None:
    with Behind(path, None), pytest.raises(ServerUnreachable) as hanging:
        claim(path, timeout_s=0.3)
    assert hanging.value.code == "server_too_slow"


def test_a_socket_that_takes_no_connection_is_given_up(path) -> None:
    full = socket.socket(socket.AF_UNIX)
    waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
    try:
        full.bind(path)
        full.listen(0)
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(path)
        with pytest.raises(ServerUnreachable):
            claim(path, connect_s=0.3)
    finally:
        for each in (full, *waiting):
            each.close()


@pytest.mark.parametrize("path", ["", "relative/s", "/a\0b", "/" + "x" * LONGEST_SOCKET_BYTES])
def test_a_path_that_no_socket_can_have_is_refused(path) -> None:
    with pytest.raises(AgentMisconfigured, match="The server's socket cannot be used"):
        parse_address(f"unix:{path}")


def test_the_longest_path_that_the_kernel_takes_is_taken(tmp_path) -> None:
    with tempfile.TemporaryDirectory(dir="/tmp") as folder:
        longest = folder + "/" + "x" * (LONGEST_SOCKET_BYTES - len(os.fsencode(folder)) - 1)
        with Behind(longest):
            assert claim(longest) is None
        assert Path(longest).is_socket()
