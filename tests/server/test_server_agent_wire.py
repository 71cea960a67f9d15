"""Agents over real connections: hanging up, refusals of large bodies, bodies that crawl or never end."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from hashlib import sha256
from typing import Any

import httpx
import pytest
from agent_calls import LINES, AgentCalls
from agent_link import AGENT_BACKENDS, AgentLink
from serving import serving

from potato_ray.config import ProjectConfig
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.states import State
from potato_ray.server.agent_wire import AgentWire
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext
from potato_ray.server.problems import Rejected
from potato_ray.server.uploads import pieces, whole_body

MB = 2**20


class Served:
    def __init__(self, config: ProjectConfig, url: str, app: Any, link: AgentLink) -> None:
        self.config, self.url, self.app, self.link = config, url, app, link
        self.client = httpx.Client(base_url=url, timeout=20, trust_env=False)
        self.calls = AgentCalls(self.client, link.token())

    def take(self) -> AgentCalls:
        self.link.offer()
        assert self.calls.claim().status_code == 200
        self.link.move(self.calls.run_id, State.RUNNING)
        return self.calls

    def connect(self) -> socket.socket:
        host, port = self.url.removeprefix("http://").split(":")
        return socket.create_connection((host, int(port)), 20)


@pytest.fixture
def served(make_config: Callable[..., ProjectConfig]) -> Iterator[Served]:
    config = make_config(backends=AGENT_BACKENDS, max_concurrent_runs=9)
    link = AgentLink(config)
    app = create_app(ServerContext(config, RegistryReader(config.registry_path), link, admin_key="k"))
    with serving(app) as url:
        made = Served(config, url, app, link)
        yield made
        made.client.close()
    link.close()


def head(method: str, path: str, headers: dict[str, str], **more: str) -> bytes:
    lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in {**headers, **more}.items()]
    return "\r\n".join([*lines, "", ""]).encode()


def answered(connection: socket.socket) -> tuple[int, dict[str, Any]]:
    """Status and problem of what comes."""
    got = b""
    while True:
        head_, _, body = got.partition(b"\r\n\r\n")
        length = [line for line in head_.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        if length and len(body) >= int(length[0].split(b":")[1]):
            return int(got.split()[1]), json.loads(body)
        piece = connection.recv(65536)
        assert piece, got
        got += piece


def test_a_whole_job_over_a_real_connection(served) -> None:
    calls = served.take()
    assert calls.bundle().status_code == 200
    assert calls.finish().status_code == 200
    assert served.link.folder(calls.run_id).predictions.read_bytes() == LINES


def test_agents_that_ask_and_report_are_seen_with_what_they_have_in_hand(served) -> None:
    calls = served.take()
    calls.progress()
    wait_until(lambda: any(said["run_id"] == calls.run_id for _, said in served.link.seen))
    backend, said = served.link.seen[-1]
    assert (backend, said["host"], said["agent_id"]) == ("workstation", "ws1", "5f2a90c1d3e4b677")


def test_an_agent_that_hangs_up_is_noticed(served) -> None:
    connection = served.connect()
    body = json.dumps({"lease": "a" * 32, "wait_s": 40, "agent": {"id": "a"}}).encode()
    headers = {**served.calls.headers, "Content-Length": str(len(body))}
    connection.sendall(head("POST", "/api/training/jobs/claim", headers) + body)
    polls = served.app.state.agent_door.polls
    wait_until(lambda: len(polls) == 1)
    connection.close()
    wait_until(lambda: len(polls) == 0)
    served.link.offer()
    assert served.calls.claim().status_code == 200


def wait_until(reached: Callable[[], bool], within_s: float = 10.0) -> None:
    deadline = time.monotonic() + within_s
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_refusal_reaches_an_agent_that_is_still_sending(served) -> None:
    calls = served.take()
    size = 600 * MB
    headers = {**calls.job_headers, "Potato-Ray-Sha256": "0" * 64, "Content-Length": str(size)}
    connection = served.connect()
    connection.sendall(head("PUT", f"/api/training/jobs/{calls.run_id}/predictions", headers))
    sent = 0
    for _ in range(20):
        connection.sendall(b"x" * MB)
        sent += MB
    status, problem = answered(connection)
    assert (status, problem["error_code"]) == (413, "predictions_too_large")
    assert sent < size
    connection.close()


def test_an_agent_that_asks_first_is_refused_before_it_sends_anything(served) -> None:
    calls = served.take()
    headers = {**calls.job_headers, "Potato-Ray-Sha256": "0" * 64, "Content-Length": str(600 * MB)}
    path = f"/api/training/jobs/{calls.run_id}/predictions"
    connection = served.connect()
    connection.sendall(head("PUT", path, headers, Expect="100-continue"))
    status, problem = answered(connection)
    assert (status, problem["error_code"]) == (413, "predictions_too_large")
    connection.close()


def test_an_agent_that_asks_first_and_may_send_is_told_to_go_on(served) -> None:
    calls = served.take()
    headers = {**calls.job_headers, "Potato-Ray-Sha256": sha256(LINES).hexdigest()}
    path = f"/api/training/jobs/{calls.run_id}/predictions"
    connection = served.connect()
    connection.sendall(
        head("PUT", path, headers, **{"Content-Length": str(len(LINES)), "Expect": "100-continue"})
    )
    assert connection.recv(1000).startswith(b"HTTP/1.1 100 ")
    connection.sendall(LINES)
    assert answered(connection) == (200, {"bytes": len(LINES)})
    connection.close()


def test_a_body_without_an_end_is_given_up(served) -> None:
    calls = served.take()
    headers = {**calls.job_headers, "Transfer-Encoding": "chunked"}
    connection = served.connect()
    connection.sendall(head("POST", f"/api/training/jobs/{calls.run_id}/progress", headers))
    for _ in range(5):
        connection.sendall(b"100000\r\n" + b" " * MB + b"\r\n")
    status, problem = answered(connection)
    assert (status, problem["error_code"]) == (413, "body_too_large")
    connection.close()


def test_an_upload_that_breaks_off_leaves_nothing(served) -> None:
    calls = served.take()
    headers = {**calls.job_headers, "Potato-Ray-Sha256": "0" * 64, "Content-Length": "1000000"}
    connection = served.connect()
    connection.sendall(head("PUT", f"/api/training/jobs/{calls.run_id}/predictions", headers) + b"x" * 70_000)
    folder = served.link.folder(calls.run_id).path
    wait_until(lambda: bool(list(folder.glob(".predictions.*"))))
    connection.close()
    wait_until(lambda: not list(folder.glob(".predictions.*")))
    assert not served.link.folder(calls.run_id).predictions.exists()
    assert calls.predictions().status_code == 200


def test_connections_are_kept_for_the_next_request_also_behind_a_refusal(served) -> None:
    calls = served.take()
    connection = served.connect()
    for _ in range(3):
        request = head("POST", f"/api/training/jobs/{calls.run_id}/progress", calls.headers) + b""
        connection.sendall(request.replace(b"\r\n\r\n", b"\r\nContent-Length: 2\r\n\r\n{}"))
        status, problem = answered(connection)
        assert (status, problem["error_code"]) == (400, "malformed_request")
    connection.close()


class Body:
    """A request whose body comes in these pieces, each after so many seconds of the clock."""

    def __init__(self, *pieces: bytes, pause_s: float = 0.0) -> None:
        self.headers: dict[str, str] = {}
        self.scope: dict[str, Any] = {"headers": []}
        self._pieces = pieces
        self._pause_s = pause_s
        self.now = 0.0

    async def stream(self) -> AsyncIterator[bytes]:
        for piece in self._pieces:
            self.now += self._pause_s
            yield piece

    async def stall(self) -> AsyncIterator[bytes]:
        yield b"x"
        await asyncio.sleep(60)


async def read(body: Any, **how: Any) -> bytes:
    return b"".join([piece async for piece in pieces(body, **how)])


def test_a_body_that_crawls_is_given_up() -> None:
    slow = Body(*[b"x"] * 100, pause_s=1.0)
    with pytest.raises(Rejected, match="did not arrive") as refused:
        asyncio.run(read(slow, clock=lambda: slow.now))
    assert (refused.value.status, refused.value.code) == (408, "body_too_slow")
    steady = Body(*[b"x" * 2048] * 100, pause_s=1.0)
    assert len(asyncio.run(read(steady, clock=lambda: steady.now))) == 204_800


@pytest.mark.parametrize(
    "how", [lambda body: read(body, stall_s=0.05), lambda body: whole_body(body, 9, 0.05)]
)
def test_a_body_that_stalls_is_given_up(how: Callable[[Any], Any]) -> None:
    body = Body()
    body.stream = body.stall  # type: ignore[method-assign]
    with pytest.raises(Rejected) as refused:
        asyncio.run(how(body))
    assert refused.value.code == "body_too_slow"


def test_other_routes_are_left_as_they_are() -> None:
    async def scenario() -> list[Any]:
        sent: list[Any] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200, "headers": []})

        async def send(message: Any) -> None:
            sent.append(message)

        scope = {"type": "http", "path": "/admin/training", "method": "POST"}
        await AgentWire(app)(scope, None, send)  # type: ignore[arg-type]
        return sent

    assert asyncio.run(scenario())[0]["headers"] == []
