"""Clients on a clock of their own, whose requests a function answers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import httpx
from answering import Handler

from potato_ray.client import AsyncClient, Client

URL = "http://127.0.0.1:8000"
KEY = "the-admin-key-of-the-tests"


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    async def sleep_async(self, seconds: float) -> None:
        self.sleep(seconds)

    def clock(self) -> float:
        return self.now


def client_of(handler: Handler, time: Time | None = None, **options: Any) -> Client:
    """A client that talks to `handler`."""
    time = time or Time()
    client = Client(URL, KEY, transport=httpx.MockTransport(handler), **options)
    client._driver.sleep = time.sleep
    client._patience = replace(client._patience, clock=time.clock)
    return client


def async_client_of(handler: Handler, time: Time | None = None, **options: Any) -> AsyncClient:
    """The async twin of client_of."""
    time = time or Time()
    client = AsyncClient(URL, KEY, transport=httpx.MockTransport(handler), **options)
    client._driver.sleep = time.sleep_async  # type: ignore[assignment]
    client._patience = replace(client._patience, clock=time.clock)
    return client
