"""What a proxy on this machine says of its clients, and how far that is believed."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from fastapi.testclient import TestClient

from potato_ray.server.connections import TimedConnection
from potato_ray.server.forwarding import Forwarding, is_forwarded
from potato_ray.server.listening import Listening, bind, url_of

RUNS = "/admin/training/api/runs"


def guess(served: Any, peer: str, key: str = "wrong", **headers: str) -> int:
    """The status of a guess at the key that arrives from `peer`."""
    client = TestClient(Forwarding(served.app), "http://127.0.0.1:8000", client=(peer, 5000))
    return client.get(RUNS, headers={"X-API-Key": key, **headers}).status_code


def forwarded(number: int) -> dict[str, str]:
    return {"X-Forwarded-For": f"192.0.2.{number}"}


def test_naming_another_address_with_each_guess_gains_fifty_a_minute(serve) -> None:
    served = serve()
    found = [guess(served, "127.0.0.1", **forwarded(number)) for number in range(53)]
    assert found == [403] * 50 + [429] * 3
    key = served.client.headers["x-api-key"]
    assert guess(served, "127.0.0.1", key, **forwarded(200)) == 429
    assert guess(served, "127.0.0.1", key) == 200


def test_each_client_of_a_proxy_has_five_guesses_of_its_own(serve) -> None:
    served = serve()
    assert [guess(served, "127.0.0.1", **forwarded(1)) for _ in range(6)] == [403] * 5 + [429]
    assert guess(served, "127.0.0.1", **forwarded(2)) == 403


def test_what_another_machine_says_of_its_clients_takes_no_guess_from_those_of_the_proxy(serve) -> None:
    served = serve()
    found = [guess(served, f"198.51.100.{number}", **forwarded(number)) for number in range(60)]
    assert found == [403] * 60
    assert guess(served, "198.51.100.200", **forwarded(1)) == 403
    assert guess(served, "127.0.0.1", **forwarded(1)) == 403


@contextlib.contextmanager
def listening() -> Iterator[str]:
    """A server that answers who its client is, as it was told."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        told = [scope["client"][0], scope["scheme"], is_forwarded(scope)]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(told).encode()})

    listener = bind("127.0.0.1", 0)
    server = Listening(app, listener, lambda: None)  # type: ignore[arg-type]
    assert server._server.config.http is TimedConnection
    server.start()
    try:
        yield url_of(listener)
    finally:
        server.stop()


@pytest.mark.parametrize("allowed", [None, "", "192.0.2.1"])
def test_a_server_believes_the_proxy_of_its_machine_whatever_the_environment_says(
    monkeypatch, allowed: str | None
) -> None:
    if allowed is not None:
        monkeypatch.setenv("FORWARDED_ALLOW_IPS", allowed)
    headers = {"X-Forwarded-For": "192.0.2.9", "X-Forwarded-Proto": "https"}
    with listening() as url:
        assert httpx.get(url, headers=headers).json() == ["192.0.2.9", "https", True]
        assert httpx.get(url).json() == ["127.0.0.1", "http", False]
