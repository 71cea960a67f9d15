"""A webhook's receiver: a real HTTP server in a thread that answers as it is told and keeps what it got."""

from __future__ import annotations

import json
import threading
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

HANG = "hang"


@dataclass(frozen=True)
class Got:
    """One request: headers by lower-case name, and the raw body."""

    path: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> dict[str, Any]:
        return dict(json.loads(self.raw))


class Receiver:
    """Listens from `with` to the end of its block.

    `answers` are statuses, (status, headers), or HANG for none at all; the last one is given again and
    again. Port 0: any.
    """

    def __init__(self, *answers: Any, port: int = 0) -> None:
        self.answers = list(answers) or [200]
        self.got: list[Got] = []
        self._end = threading.Event()
        self._server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        self._server.daemon_threads = True
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}/hook"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    def __enter__(self) -> Receiver:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join(10.0)

    def take(self, got: Got) -> tuple[int, dict[str, str]] | None:
        """Keep a request; how to answer it, None after the end of a hanging one."""
        self.got.append(got)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == HANG:
            self._end.wait(60.0)
            return None
        return answer if isinstance(answer, tuple) else (answer, {})


def _handler(receiver: Receiver) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            raw = self.rfile.read(int(self.headers["Content-Length"]))
            headers = {name.lower(): value for name, value in self.headers.items()}
            answer = receiver.take(Got(self.path, headers, raw))
            if answer is None:
                return
            self.send_response(answer[0])
            for name, value in answer[1].items():
                self.send_header(name, value)
            self.send_header("Content-Length", "2")
            self.end_headers()
            self.wfile.write(b"ok")

        def log_message(self, *_: object) -> None:
            return

    return Handler
