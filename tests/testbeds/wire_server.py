"""The other end of an agent's connection: a real HTTP server that answers as it is told, faults included.

    with WireServer(wire.json_of({"cancel": False}), wire.hang) as server: ...

An answer is a function of the request's handler; the last one is given again and again.
"""

from __future__ import annotations

import hashlib
import json
import re
import select
import socket
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

DEADLINE_S = 20.0


@dataclass(frozen=True)
class Seen:
    """One request: headers by lower-case name, the body as far as it was read, and its connection."""

    method: str
    target: str
    headers: dict[str, str]
    raw: bytes
    connection: int

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.raw))


class WireServer:
    """Listens from `with` to the end of its block. `tls`: speak TLS; `host`: an IPv6 address works too.

    `received_bytes`: the room for what has come and is not read yet; None: what the system gives.
    """

    def __init__(
        self,
        *answers: Answer,
        tls: ssl.SSLContext | None = None,
        host: str = "127.0.0.1",
        received_bytes: int | None = None,
    ) -> None:
        self.answers = list(answers)
        self.seen: list[Seen] = []
        self.sent_bytes = 0
        self.end = threading.Event()
        kind = type("Listener", (_Listener,), {"address_family": _family(host)})
        self._server = kind((host, 0), _handler(self))
        if received_bytes is not None:
            self._server.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, received_bytes)
        self.port = int(self._server.server_address[1])
        if tls is not None:
            self._server.socket = tls.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        shown = f"[{host}]" if ":" in host else host
        self.url = f"{'http' if tls is None else 'https'}://{shown}:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> WireServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(DEADLINE_S)

    def next_answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


class Handler(BaseHTTPRequestHandler):
    """One connection. `server_bed` is the WireServer."""

    protocol_version = "HTTP/1.1"
    server_bed: WireServer

    def do_any(self) -> None:
        answer = self.server_bed.next_answer()
        raw = b"" if getattr(answer, "unread", False) else self.rfile.read(self.content_length)
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server_bed.seen.append(Seen(self.command, self.path, headers, raw, int(self.client_address[1])))
        try:
            answer(self)
        except (OSError, ValueError):
            self.close_connection = True

    do_GET = do_POST = do_PUT = do_CONNECT = do_any  # noqa: N815 - names of http.server's

    @property
    def content_length(self) -> int:
        return int(self.headers.get("Content-Length") or 0)

    def give(self, status: int, body: bytes = b"", length: int | None = None, **headers: str) -> None:
        """A whole answer; `length`: what it announces, where that is not true. In names, _ stands for -."""
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        if status != 204:
            self.send_header("Content-Length", str(len(body) if length is None else length))
        self.end_headers()
        self.wfile.write(body)
        self.server_bed.sent_bytes += len(body)

    def cut(self) -> None:
        """Drop the connection at once."""
        self.close_connection = True
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_RDWR)

    def log_message(self, *_: object) -> None:
        return


Answer = Callable[[Handler], None]


def giving(status: int, body: bytes = b"", **headers: str) -> Answer:
    """An answer with this body."""
    return lambda handler: handler.give(status, body, **headers)


def json_of(body: Any, status: int = 200, **headers: str) -> Answer:
    """A JSON answer."""
    return giving(status, json.dumps(body).encode(), Content_Type="application/json", **headers)


def problem(status: int, code: str, **more: Any) -> Answer:
    """A problem answer of the server's."""
    return json_of({"status": status, "error": f"Refused as {code}.", "error_code": code, **more}, status)


def raw(answer: bytes) -> Answer:
    """These bytes, and the end of the connection."""

    def give(handler: Handler) -> None:
        handler.wfile.write(answer)
        handler.cut()

    return give


def hang(handler: Handler) -> None:
    """No answer at all."""
    handler.server_bed.end.wait(DEADLINE_S)


def hang_up(handler: Handler) -> None:
    """The end of the connection instead of an answer."""
    handler.cut()


def late(seconds: float, answer: Answer) -> Answer:
    """An answer that lets the client wait."""

    def give(handler: Handler) -> None:
        handler.server_bed.end.wait(seconds)
        answer(handler)

    return give


def drip(handler: Handler) -> None:
    """An answer of which one byte comes now and then."""
    handler.send_response(200)
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    while not handler.server_bed.end.wait(0.05):
        handler.wfile.write(b" ")


def endless(handler: Handler) -> None:
    """A body without an end."""
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    while not handler.server_bed.end.is_set():
        handler.wfile.write(b"10000\r\n" + b" " * 65536 + b"\r\n")


def slowly(bytes_per_s: float, answer: Answer) -> Answer:
    """An answer after the body was read at this pace; what is on the way before that is little."""

    def give(handler: Handler) -> None:
        left = handler.content_length
        while left and not handler.server_bed.end.wait(4096 / bytes_per_s):
            piece = handler.rfile.read(min(4096, left))
            if not piece:
                break  # the client has lost patience
            left -= len(piece)
        answer(handler) if not left else handler.cut()

    give.unread = True  # type: ignore[attr-defined]
    return give


def unread(answer: Answer) -> Answer:
    """An answer that is given before the body of the request is read; then the connection ends."""

    def give(handler: Handler) -> None:
        answer(handler)
        handler.close_connection = True

    give.unread = True  # type: ignore[attr-defined]
    return give


class File:
    """Serves `content` with ranges and a strong ETag; `cuts` end the answers after so many bytes."""

    def __init__(self, content: bytes, *cuts: int, etag: str = "", ranges: bool = True) -> None:
        self.content = content
        self.sha256 = hashlib.sha256(content).hexdigest()
        self.cuts = list(cuts)
        self.etag = etag or f'"{self.sha256}"'
        self.ranges = ranges

    def __call__(self, handler: Handler) -> None:
        asked = re.fullmatch(r"bytes=(\d+)-", handler.headers.get("Range") or "")
        start = int(asked.group(1)) if asked and self.ranges and self._is_same(handler) else 0
        body = self.content[start:]
        headers = {"ETag": self.etag, "Content_Type": "application/gzip"}
        if start:
            headers["Content_Range"] = f"bytes {start}-{len(self.content) - 1}/{len(self.content)}"
        sent = body[: self.cuts.pop(0)] if self.cuts else body
        handler.give(206 if start else 200, sent, len(body), **headers)
        if len(sent) < len(body):
            handler.cut()

    def _is_same(self, handler: Handler) -> bool:
        return handler.headers.get("If-Range") in (None, self.etag)


def forward(handler: Handler) -> None:
    """What a proxy does: a tunnel for CONNECT, else the same request to the address in its first line."""
    if handler.command == "CONNECT":
        host, _, port = handler.path.rpartition(":")
        with socket.create_connection((host.strip("[]"), int(port)), DEADLINE_S) as away:
            handler.send_response(200)
            handler.end_headers()
            _pump(handler.connection, away, handler.server_bed.end)
        handler.close_connection = True
        return
    handler.give(200, json.dumps({"through": handler.path}).encode(), Content_Type="application/json")


def _pump(here: socket.socket, away: socket.socket, end: threading.Event) -> None:
    others = {here: away, away: here}
    while not end.is_set():
        for ready in select.select([here, away], [], [], 0.05)[0]:
            data = ready.recv(65536)
            if not data:
                return
            others[ready].sendall(data)


class _Listener(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """A client that goes away, or that speaks no TLS, is no news."""


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET


def _handler(bed: WireServer) -> type[BaseHTTPRequestHandler]:
    return type("BedHandler", (Handler,), {"server_bed": bed})
