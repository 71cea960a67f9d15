"""The server's side of the agent protocol, in memory and in plain Python, over real loopback HTTP.

It checks what an agent sends as the real one does, keeps it, and fails as it is ordered to:

    server.order("progress", 503, 503, RESET)     the next three of these requests
    with server.away(): ...                       nobody listens at its port
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import socket
import tarfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any

from potato_ray.agent import protocol

TOKEN = "prt_" + "x" * 43
HANG = "hang"
"""No answer until the agent hangs up, or the server ends."""
RESET = "reset"
"""The connection is cut before anything was done."""
LOST = "lost"
"""All is done as asked, and the connection is cut before the answer."""
TORN = "torn"
"""Of a body that goes out: its first half, then the end."""
PACKAGE = Path(protocol.__file__).parents[1]


@dataclass
class Told:
    """What the server has of one job. `cancel_grace_s` and `stale` are there to be set by a test."""

    job: dict[str, Any]
    bundle: bytes
    lease: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    notes: list[dict[str, Any]] = field(default_factory=list)
    alive: list[bool] = field(default_factory=list)
    predictions: bytes | None = None
    results: list[dict[str, Any]] = field(default_factory=list)
    beats: list[float] = field(default_factory=list)
    cancel_grace_s: float | None = None
    stale: bool = False
    most_events: int = 10**9

    @property
    def result(self) -> dict[str, Any] | None:
        return self.results[-1] if self.results else None

    @property
    def steps(self) -> list[str]:
        return [note["step"] for note in self.notes if note["kind"] == "step"]


class ProtocolServer:
    """Listens from `with` to the end of its block, at `url`."""

    def __init__(self, token: str = TOKEN) -> None:
        self.token = token
        self.version = str(protocol.VERSION)
        self.code = archive_of_code()
        self.jobs: dict[str, Told] = {}
        self.requests: list[str] = []
        """What was asked for, in order: claim, code, bundle, progress, predictions, result."""
        self.claims: list[dict[str, Any]] = []
        self.seen: list[str] = []
        """Every request line and header that came."""
        self._orders: dict[str, list[Any]] = {}
        self._lock = threading.RLock()
        self._news = threading.Condition(self._lock)
        self._ended = threading.Event()
        self._open: set[socket.socket] = set()
        self._server = self._listen(0)
        self.port = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"

    def __enter__(self) -> ProtocolServer:
        self._serve()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        with self._news:
            self._news.notify_all()
        self._stop()

    def offer(self, run_id: str, spec: dict[str, Any], bundle: Path, **more: Any) -> Told:
        """Put a job on offer; `more` are fields of the job document."""
        packed = packed_folder(bundle)
        job = {
            "v": 1,
            "run_id": run_id,
            "attempt": 1,
            "backend": "far",
            "spec": spec,
            "bundle": {"sha256": hashlib.sha256(packed).hexdigest(), "bytes": len(packed)},
            "code": {"sha256": hashlib.sha256(self.code).hexdigest(), "bytes": len(self.code)},
            "grace_seconds": 2.0,
            "lost_after_s": 30.0,
            "progress_every_s": 0.1,
            "max_predictions_mb": 1,
            "keep_artifacts": True,
            **more,
        }
        with self._news:
            told = self.jobs[run_id] = Told(job, packed)
            self._news.notify_all()
        return told

    def order(self, route: str, *faults: Any) -> None:
        """Faults of a route's next requests: a status, (status, code, more), HANG, RESET, LOST, TORN."""
        with self._lock:
            self._orders.setdefault(route, []).extend(faults)

    def ordered(self, route: str) -> list[Any]:
        """The faults of a route that are still to come."""
        with self._lock:
            return list(self._orders.get(route, []))

    def forget_orders(self) -> None:
        with self._lock:
            self._orders.clear()

    def wait_for(self, true: Callable[[], Any], within_s: float = 30.0) -> None:
        """Wait until something is true; fails at the deadline."""
        deadline = time.monotonic() + within_s
        while not true():
            told = {run: (each.steps[-3:], each.result) for run, each in self.jobs.items()}
            assert time.monotonic() < deadline, f"it did not come to that: {self.requests[-20:]} {told}"
            time.sleep(0.01)

    @contextmanager
    def away(self) -> Iterator[None]:
        """Not there, for the length of a `with` block; every connection is cut."""
        self.leave()
        yield
        self.come_back()

    def leave(self) -> None:
        self._stop()

    def come_back(self) -> None:
        self._server = self._listen(self.port)
        self._serve()

    # What the requests do.

    def claim(self, body: dict[str, Any]) -> dict[str, Any] | None:
        deadline = time.monotonic() + float(body["wait_s"])
        with self._news:
            self.claims.append(body)
            while not self._ended.is_set():
                told = self._claimed_by(body["lease"])
                if told is not None:
                    told.lease = body["lease"]
                    return told.job
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    return None
                self._news.wait(min(left_s, 0.05))
        return None

    def _claimed_by(self, lease: str) -> Told | None:
        waiting = [told for told in self.jobs.values() if not told.stale and not told.results]
        mine = [told for told in waiting if told.lease == lease]
        return next(iter([*mine, *(told for told in waiting if not told.lease)]), None)

    def take_fault(self, route: str) -> Any:
        with self._lock:
            self.requests.append(route)
            orders = self._orders.get(route)
            return orders.pop(0) if orders else None

    def hang(self) -> None:
        self._ended.wait(60.0)

    def told_of(self, run_id: str, headers: Any) -> Told | tuple[int, str]:
        """The job of a request, or status and code of a refusal."""
        told = self.jobs.get(run_id)
        if told is None:
            return 404, "unknown_run"
        holds = (headers[protocol.ATTEMPT_HEADER], headers[protocol.LEASE_HEADER])
        if told.stale or holds != (str(told.job["attempt"]), told.lease):
            return 409, protocol.STALE
        told.beats.append(time.monotonic())
        return told

    def _listen(self, port: int) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", port), _handler(self))
        server.daemon_threads = True
        return server

    def _serve(self) -> None:
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def _stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        with self._lock:
            for connection in self._open:
                _cut(connection)
        self._thread.join(10.0)

    def opened(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.add(connection)

    def closed(self, connection: socket.socket) -> None:
        with self._lock:
            self._open.discard(connection)


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass


class _Answered(Exception):
    """The request is done with."""


def _handler(server: ProtocolServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        pass

    Handler.server_side = server
    return Handler


_ROUTES = re.compile(
    r"/api/training/(?:jobs/(?P<claim>claim)|code/(?P<code>[0-9a-f]{64})"
    r"|jobs/(?P<run>[^/]+)/(?P<what>bundle|progress|predictions|result))\Z"
)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_side: ProtocolServer

    def setup(self) -> None:
        super().setup()
        self.server_side.opened(self.connection)

    def finish(self) -> None:
        try:
            super().finish()
        except OSError:
            pass  # it was cut
        self.server_side.closed(self.connection)

    def handle(self) -> None:
        try:
            super().handle()
        except OSError:
            pass  # the agent has hung up, or was cut

    def do_GET(self) -> None:
        self._answer_to("GET")

    def do_POST(self) -> None:
        self._answer_to("POST")

    def do_PUT(self) -> None:
        self._answer_to("PUT")

    def log_message(self, *_: object) -> None:
        return

    def _answer_to(self, method: str) -> None:
        self.server_side.seen += [self.requestline, *map(str, self.headers.items())]
        try:
            self._route(method)
        except _Answered:
            pass

    def _route(self, method: str) -> None:
        found = _ROUTES.match(self.path.partition("?")[0])
        if found is None:
            self._refuse(404, "not_found")
        assert found is not None
        route = found["claim"] or ("code" if found["code"] else found["what"])
        self._check()
        self.fault = self.server_side.take_fault(route)
        self._fail_before(route)
        answer = getattr(self, f"_{route}")
        answer() if found["claim"] or found["code"] else answer(self._told(found["run"]))

    def _check(self) -> None:
        if self.headers["Authorization"] != f"Bearer {self.server_side.token}":
            self._refuse(401, "wrong_token")
        if self.headers[protocol.VERSION_HEADER] != self.server_side.version:
            self._refuse(400, protocol.UNKNOWN_PROTOCOL, evidence=f"It speaks {self.server_side.version}.")

    def _fail_before(self, route: str) -> None:
        if self.fault == HANG:
            self.server_side.hang()
            self._hang_up()
        if self.fault == RESET:
            self._hang_up()
        if isinstance(self.fault, int):
            self._refuse(self.fault, "ordered_trouble")
        if isinstance(self.fault, tuple):
            self._refuse(self.fault[0], self.fault[1], **(self.fault[2] if len(self.fault) > 2 else {}))

    def _hang_up(self) -> None:
        self.close_connection = True
        _cut(self.connection)
        raise _Answered

    def _told(self, run_id: str) -> Told:
        told = self.server_side.told_of(run_id, self.headers)
        if isinstance(told, tuple):
            self._refuse(*told)
        assert isinstance(told, Told)
        return told

    def _body(self) -> bytes:
        return self.rfile.read(int(self.headers["Content-Length"] or 0))

    def _claim(self) -> None:
        job = self.server_side.claim(json.loads(self._body()))
        self._json(job) if job is not None else self._send(204, b"")

    def _code(self) -> None:
        self._file(self.server_side.code)

    def _bundle(self, told: Told) -> None:
        self._file(told.bundle)

    def _progress(self, told: Told) -> None:
        raw = self._body()
        assert len(raw) <= protocol.MAX_PROGRESS_BYTES
        body = json.loads(raw)
        first_seq, events = body["first_seq"], body["events"]
        assert len(events) <= protocol.MAX_EVENTS
        if first_seq > len(told.events):
            self._refuse(409, protocol.GAP, next_seq=len(told.events))
        fresh = events[len(told.events) - first_seq :]
        if len(told.events) + len(fresh) > told.most_events:
            self._refuse(413, "events_too_large")
        told.events += fresh
        told.notes += body["notes"]
        told.alive.append(body["alive"])
        cancel = told.cancel_grace_s is not None
        answer = {"cancel": cancel, "grace_seconds": told.cancel_grace_s or 2.0, "next_seq": len(told.events)}
        self._json(answer)

    def _predictions(self, told: Told) -> None:
        size = int(self.headers["Content-Length"])
        if size > told.job["max_predictions_mb"] * 2**20:
            self._refuse(413, "predictions_too_large")
        body = self._body()
        assert hashlib.sha256(body).hexdigest() == self.headers[protocol.DIGEST_HEADER]
        told.predictions = body
        self._json({})

    def _result(self, told: Told) -> None:
        body = json.loads(self._body())
        if body["next_seq"] > len(told.events):
            self._refuse(409, protocol.GAP, next_seq=len(told.events))
        end = body["exit"]
        good = end is not None and (end["code"], end["reason"]) == (0, "") and body["failure"] is None
        if good and told.predictions is None:
            self._refuse(409, "predictions_missing")
        told.results.append(body)
        self._json({})

    def _file(self, data: bytes) -> None:
        digest = hashlib.sha256(data).hexdigest()
        first = re.fullmatch(r"bytes=(\d+)-", self.headers["Range"] or "")
        begin = int(first[1]) if first else 0
        headers = {"ETag": f'"{digest}"', "Accept-Ranges": "bytes", "Content-Type": "application/gzip"}
        if first:
            headers["Content-Range"] = f"bytes {begin}-{len(data) - 1}/{len(data)}"
        self._send(206 if first else 200, data[begin:], headers)

    def _json(self, body: Any, status: int = 200) -> None:
        self._send(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _refuse(self, status: int, code: str, **more: Any) -> None:
        body = {"status": status, "error": f"It says {code}.", "error_code": code, "evidence": "", **more}
        self.close_connection = True
        headers = {"Content-Type": "application/problem+json", "Connection": "close"}
        self._send(status, json.dumps({"next_step": "Look.", **body}).encode(), headers)
        raise _Answered

    def _send(self, status: int, data: bytes, headers: dict[str, str] | None = None) -> None:
        if getattr(self, "fault", None) == LOST:
            self._hang_up()
        self.send_response(status)
        for name, value in (headers or {}).items():
            self.send_header(name, value)
        self.send_header(protocol.VERSION_HEADER, self.server_side.version)
        if status != 204:
            self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if getattr(self, "fault", None) == TORN:
            self.wfile.write(data[: len(data) // 2])
            self.wfile.flush()
            self._hang_up()
        self.wfile.write(data)


def packed_folder(folder: Path) -> bytes:
    """A tar.gz of what a folder holds, with names relative to it."""
    return _packed([(path.relative_to(folder).as_posix(), path) for path in sorted(folder.rglob("*"))])


def archive_of_code() -> bytes:
    """The worker's code, as the server ships it."""
    parts = [PACKAGE / "__init__.py", *PACKAGE.glob("job/*.py"), *PACKAGE.glob("trainers/*.py")]
    return _packed([(path.relative_to(PACKAGE.parent).as_posix(), path) for path in sorted(parts)])


def _packed(files: list[tuple[str, Path]]) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w:gz", compresslevel=1) as archive:
        for name, path in files:
            if path.is_file():
                archive.add(path, name, filter=_plain)
    return target.getvalue()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry
