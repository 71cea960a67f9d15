"""Real servers for tests of those who talk to one: an application on a free port, and one that misbehaves."""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import uvicorn
from sse_starlette.sse import AppStatus

DEADLINE_S = 20.0


@contextlib.contextmanager
def serving(app: Any) -> Iterator[str]:
    """Serve an application on a free port of this machine, in a thread; its address."""
    listener = socket.create_server(("127.0.0.1", 0))
    AppStatus.should_exit = False  # of an earlier server in this process
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not server.started:
            assert thread.is_alive()
            assert time.monotonic() < deadline, "the server did not start"
            time.sleep(0.01)
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(DEADLINE_S)
        listener.close()


class ScriptedServer:
    """Answers one connection after the other with these bytes, and hangs up; `requests` are what it got.

    An answer of None is a server that takes the request and never says a word.
    """

    def __init__(self, answers: Sequence[bytes | None]) -> None:
        self.requests: list[bytes] = []
        self._answers = list(answers)
        self._silent: list[socket.socket] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def _serve(self) -> None:
        for answer in self._answers:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            self.requests.append(self._request(connection))
            if answer is None:
                self._silent.append(connection)
                continue
            with connection:
                connection.sendall(answer)

    @staticmethod
    def _request(connection: socket.socket) -> bytes:
        """Head and body of a request; hanging up on a body that was not read would reset the connection."""
        connection.settimeout(DEADLINE_S)
        got = b""
        while b"\r\n\r\n" not in got:
            got += connection.recv(65536)
        head, _, body = got.partition(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        wanted = next((int(line.split(b":")[1]) for line in lines if line.startswith(b"content-length:")), 0)
        while len(body) < wanted:
            body += connection.recv(65536)
        return head + b"\r\n\r\n" + body

    def __enter__(self) -> ScriptedServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for connection in self._silent:
            connection.close()
        self._thread.join(DEADLINE_S)


def http_answer(
    body: bytes, content_type: str = "application/json", status: str = "200 OK", **headers: str
) -> bytes:
    """The bytes of an answer; a `content_length` of your own makes one that is cut."""
    given = {"content_length": str(len(body)), "connection": "close", **headers}
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in given.items()]
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-type: {content_type}", *lines])
    return head.encode("ascii") + b"\r\n\r\n" + body
