"""A Hub of models on a loopback port, for the real huggingface_hub: models by id, each a folder of files."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub(ThreadingHTTPServer):
    """`models`: id → file name → content; `gated` ids show their files to nobody. `asked` are the paths."""

    daemon_threads = True

    def __init__(self, models: Mapping[str, Mapping[str, bytes]], gated: frozenset[str]) -> None:
        super().__init__(("127.0.0.1", 0), _Answering)
        self.models, self.gated = models, gated
        self.asked: list[str] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


@contextmanager
def serving_hub(
    models: Mapping[str, Mapping[str, bytes]], gated: frozenset[str] = frozenset()
) -> Iterator[FakeHub]:
    hub = FakeHub(models, gated)
    thread = threading.Thread(target=hub.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()
        thread.join(10)


class _Answering(BaseHTTPRequestHandler):
    server: FakeHub
    protocol_version = "HTTP/1.1"

    def log_message(self, *_args: Any) -> None: ...

    def do_HEAD(self) -> None:
        self._answer()

    def do_GET(self) -> None:
        self._answer()

    def _answer(self) -> None:
        path = self.path.partition("?")[0]
        self.server.asked.append(path)
        name = "/".join(path.removeprefix("/api/models").split("/")[1:3])
        files = self.server.models.get(name)
        if files is None:
            self._send(
                401, b"{}", {"X-Error-Code": "RepoNotFound", "X-Error-Message": "Repository not found"}
            )
        elif "/resolve/" in path:
            self._file(name, files, path.partition("/resolve/")[2].partition("/")[2])
        elif "/tree/" in path:
            tree = [
                {"type": "file", "path": file, "size": len(body), "oid": _digest(body)}
                for file, body in files.items()
            ]
            self._send(200, json.dumps(tree).encode())
        elif path.endswith("/revision/gone"):
            self._send(404, b"{}", {"X-Error-Code": "RevisionNotFound"})
        else:
            siblings = [{"rfilename": file} for file in files]
            self._send(200, json.dumps({"id": name, "sha": COMMIT, "siblings": siblings}).encode())

    def _file(self, name: str, files: Mapping[str, bytes], file: str) -> None:
        if name in self.server.gated:
            self._send(403, b"{}", {"X-Error-Code": "GatedRepo", "X-Error-Message": "Access is restricted"})
        else:
            body = files[file]
            self._send(200, body, {"ETag": f'"{_digest(body)}"', "X-Repo-Commit": COMMIT})

    def _send(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)


def _digest(body: bytes) -> str:
    return hashlib.sha1(body, usedforsecurity=False).hexdigest()
