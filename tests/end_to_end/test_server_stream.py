"""Streams over real connections: every event once, whatever breaks; little for many clients; a quick end."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml
from served_process import KEY, NEW, Listener, Reporting, listener, listeners, served

from potato_ray.registry import Registry, State

CLIENTS = 200


@pytest.fixture
def config(make_project):
    made = make_project()
    path = made.task_dir / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    path.write_text(yaml.safe_dump({**body, "admin_api_key": KEY}, allow_unicode=True), "utf-8")
    return path


@pytest.fixture
def registry_path(config: Path) -> Path:
    return config.parent / "project.sqlite"


def told(raw: bytes) -> list[tuple[str, Any]]:
    """(id of the message, id of the event or status) of each complete `run` message."""
    found = []
    for block in raw.partition(b"\r\n\r\n")[2].decode("ascii").split("\n\n")[:-1]:
        fields = dict(line.split(": ", 1) for line in block.split("\n"))
        if fields.get("event") == "run":
            data = json.loads(fields["data"])
            found.append((fields["id"], data.get("id") or data["status"]))
    return found


def begin(registry: Registry) -> str:
    run_id = registry.create_run(NEW, queue_max=9, allow_queue=True, max_concurrent=9).run_id
    registry.begin(run_id, None, 9)
    return run_id


def say(registry: Registry, run_id: str, count: int, text: str = "x") -> None:
    for _ in range(count):
        registry.record_note(run_id, 1, {"event": "log", "level": "info", "message": text})


async def hear(client: Listener, reached, within_s: float = 20.0) -> None:
    """Read until enough has come."""
    async with asyncio.timeout(within_s):
        while not reached(client.raw):
            piece = await client.reader.read(65536)
            assert piece, "the stream has ended"
            client.raw += piece


def is_last(raw: bytes) -> bool:
    """Whether the last of 2,000 events is there, whole."""
    return raw.endswith(b"\n\n") and b'"id":2000,' in raw


async def until(reached, within_s: float = 30.0) -> None:
    async with asyncio.timeout(within_s):
        while not reached():
            await asyncio.sleep(0.05)


def greeted(raw: bytes) -> bool:
    return b"event: status\n" in raw


BUSY, IDLE = 0.10, 0.03
"""Of a core: what CLIENTS may take while a run says ten things a second, and while nothing happens."""
ROUNDS = 3


async def least(cost: Callable[[int], Awaitable[float]], bound: float, times: float) -> tuple[float, float]:
    """What CLIENTS cost, and what they may cost: the least of up to ROUNDS, for other work only adds to it.

    They may cost `bound`, or so many `times` what one client does: there are machines, and hours of one
    machine, on which a wake alone costs ten times what it costs elsewhere.
    """
    ones, manies = [], []
    for _ in range(ROUNDS):
        ones.append(await cost(1))
        manies.append(await cost(CLIENTS))
        if min(manies) < max(bound, times * min(ones)):
            break
    return min(manies), max(bound, times * min(ones))


@pytest.mark.alone
def test_two_hundred_clients_hear_every_event_once_and_cost_little_more_than_one(
    config, registry_path
) -> None:
    async def heard(server, n_clients: int) -> float:
        async with listeners(server.port, n_clients) as made:
            with Reporting(registry_path) as run:
                await asyncio.sleep(1.0)
                share = await server.share(4.0)
            with contextlib.suppress(TimeoutError):
                await until(lambda: {each.runs for each in made} == {run.entries})
            assert {each.runs for each in made} == {run.entries}
            return share

    # One server in one run: what a wake costs differs from machine to machine, and from hour to hour.
    with served(config) as server:
        many, allowed = asyncio.run(least(lambda n_clients: heard(server, n_clients), BUSY, 3))
    assert many < allowed


@pytest.mark.alone
def test_two_hundred_clients_cost_what_one_costs_while_nothing_happens(config) -> None:
    async def idle(server, n_clients: int) -> float:
        async with listeners(server.port, n_clients):
            return await server.share(3.0)

    with served(config) as server:
        many, allowed = asyncio.run(least(lambda n_clients: idle(server, n_clients), IDLE, 2))
    assert many < allowed


def test_a_client_goes_on_where_it_was_when_the_server_was_killed(config, registry_path) -> None:
    async def first(server, registry: Registry, run_id: str) -> bytes:
        async with listener(server.port) as client:
            await hear(client, greeted)
            say(registry, run_id, 3)
            await hear(client, lambda raw: len(told(raw)) >= 2)
            os.kill(server.process.pid, signal.SIGKILL)
            return client.raw

    async def second(server, last_id: str) -> bytes:
        async with listener(server.port, Last_Event_ID=last_id) as client:
            await hear(client, lambda raw: told(raw) and told(raw)[-1][1] == "error")
            return client.raw

    with Registry(registry_path, "demo") as registry:
        run_id = begin(registry)
        with served(config) as server:
            raw = asyncio.run(first(server, registry, run_id))
        say(registry, run_id, 3)
        registry.transition(run_id, 1, State.ERROR)
        with served(config) as server:
            again = asyncio.run(second(server, told(raw)[-1][0]))
    assert [what for _, what in told(raw) + told(again)] == [1, 2, 3, 4, 5, 6, "error"]


def test_those_that_do_not_read_take_little_memory_and_miss_nothing(config, registry_path) -> None:
    said = [{"event": "log", "level": "info", "message": "x" * 20_000}] * 200

    async def scenario(server, registry: Registry) -> float:
        run_id = begin(registry)
        registry.transition(run_id, 1, State.RUNNING)
        async with AsyncExitStack() as stack:
            [other] = await stack.enter_async_context(listeners(server.port, 1))
            clients = [await stack.enter_async_context(listener(server.port, "?after=0")) for _ in range(20)]
            for client in clients:
                await hear(client, greeted)
            before = server.memory_mb()
            for first in range(0, 2000, 200):
                registry.record_events(run_id, 1, first, said)
            await until(lambda: other.runs >= 2000)
            grown_mb = server.memory_mb() - before
            client = clients[0]
            ids: list[Any] = [what for _, what in told(client.raw)]
            client.raw = b""
            while ids[-1] != 2000:
                # The last event may already stand in what was left of the time before, whole or in part.
                await hear(client, lambda raw: len(raw) > 200_000 or is_last(raw))
                whole, end, client.raw = client.raw.rpartition(b"\n\n")
                ids += [what for _, what in told(b"\r\n\r\n" + whole + end)]
        assert ids == ["queued", "building", "running", *range(1, 2001)]
        return grown_mb

    with Registry(registry_path, "demo") as registry, served(config) as server:
        grown_mb = asyncio.run(scenario(server, registry))
    assert grown_mb < 80  # of the 20 × 40 MB that were not read


def test_a_registry_that_comes_later_is_told_from_its_first_run(config, registry_path) -> None:
    async def scenario(server) -> list[Any]:
        async with listener(server.port) as client:
            await hear(client, lambda raw: b'"state":"idle"' in raw)
            assert not registry_path.exists()
            with Registry(registry_path, "demo") as registry:
                begin(registry)
                await hear(client, lambda raw: len(told(raw)) == 2)
            return [what for _, what in told(client.raw)]

    with served(config) as server:
        assert asyncio.run(scenario(server)) == ["queued", "building"]


def test_streams_end_at_once_and_in_order_when_the_server_stops(config, capfd) -> None:
    async def scenario(server) -> float:
        async with listener(server.port) as client:
            await hear(client, greeted)
            began = time.monotonic()
            server.process.terminate()
            async with asyncio.timeout(10):
                await client.listen()
            await asyncio.to_thread(server.process.wait, 10)
            return time.monotonic() - began

    with served(config) as server:
        assert asyncio.run(scenario(server)) < 3
        assert server.process.returncode in (0, -signal.SIGTERM)
    assert capfd.readouterr().err == ""


def test_nothing_between_server_and_client_may_keep_or_hold_back_the_stream(config) -> None:
    async def scenario(server) -> str:
        async with listener(server.port) as client:
            await hear(client, greeted)
            return client.raw.partition(b"\r\n\r\n")[0].decode("ascii").lower()

    with served(config) as server:
        head = asyncio.run(scenario(server))
    assert head.startswith("http/1.1 200")
    assert "content-type: text/event-stream" in head
    assert "cache-control: no-store" in head
    assert "x-accel-buffering: no" in head
