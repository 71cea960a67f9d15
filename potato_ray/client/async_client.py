"""The async twin of client.py."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import httpx

from potato_ray.client import calls, flows
from potato_ray.client.async_run import AsyncRun
from potato_ray.client.asynchronous import Asynchronous
from potato_ray.client.client import PATIENCE_S, TIMEOUT_S
from potato_ray.client.finding import find_server, key_from_environment
from potato_ray.client.following import refresh
from potato_ray.client.patience import Patience
from potato_ray.client.place import Place
from potato_ray.client.records import (
    AgentToken,
    BackendInfo,
    CheckReport,
    RunRecord,
    SchemaInfo,
    TrainerInfo,
)
from potato_ray.client.wire import LIMITS, Wire


class AsyncClient:
    """A potato_ray server.

    `api_key` is the admin key, by default that of POTATO_ADMIN_API_KEY. `timeout_s` is for each answer,
    `patience_s` for a server that is starting or has gone away. Close it, or use it in an `async with` block.
    """

    def __init__(
        self,
        url: str,
        api_key: str | None = None,
        *,
        timeout_s: float = TIMEOUT_S,
        patience_s: float = PATIENCE_S,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        place = Place.of(url, api_key if api_key is not None else key_from_environment())
        # What goes to this very machine goes through no proxy.
        http = httpx.AsyncClient(
            transport=transport, trust_env=not place.is_loopback, follow_redirects=False, limits=LIMITS
        )
        self.url = place.url
        self._driver = Asynchronous(Wire(place, timeout_s), http)
        self._patience = Patience(patience_s)

    @classmethod
    def of_project(
        cls, project: str | os.PathLike[str], api_key: str | None = None, **options: Any
    ) -> AsyncClient:
        """The server that has a project on this machine: its task_dir, or the config.yaml in it.

        The key is `api_key`, POTATO_ADMIN_API_KEY, or the one that a start has made. Raises NotFound,
        and Conflict (project_in_use) when the server is on another machine and listens there alone.
        """
        found = find_server(project)
        return cls(found.url, found.key_or(api_key), **options)

    def __repr__(self) -> str:
        return f"<AsyncClient of {self.url}>"

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close its connections."""
        await self._driver.aclose()

    async def train(
        self,
        trainer: str,
        schemas: str | Sequence[str],
        params: Mapping[str, Any] | None = None,
        backend: str | None = None,
        *,
        accept_licence: bool = False,
        queue: bool = True,
        idempotency_key: str | None = None,
    ) -> AsyncRun:
        """Start a run, or put it in the queue; it has been checked when this returns.

        A start whose answer was lost is repeated with the same key, so it is made once. Raises
        StartRefused, and ServerUnavailable when the server stays away.
        """
        call = calls.start(trainer, schemas, params, backend, accept_licence, queue, idempotency_key)
        return self._run(await self._driver.run(flows.started(call, self._patience)))

    async def run(self, run_id: str) -> AsyncRun:
        """One run; raises NotFound."""
        return self._run(await self._driver.run(refresh(run_id, self._patience)))

    async def runs(
        self, limit: int = 50, status: str | None = None, trainer: str | None = None
    ) -> list[AsyncRun]:
        """The newest runs, newest first; held-out metrics are there after `refresh`."""
        call = calls.runs(limit, status, trainer)
        found = await self._driver.run(flows.several(RunRecord, call, "runs", self._patience))
        return [self._run(record) for record in found]

    async def status(self) -> dict[str, Any]:
        """What is going on: state, step, progress, queue, warnings, errors."""
        return await self._driver.run(flows.plain(calls.status(), self._patience))

    async def trainers(self) -> list[TrainerInfo]:
        """What can be trained, with parameters and licences."""
        return await self._driver.run(
            flows.several(TrainerInfo, calls.trainers(), "trainers", self._patience)
        )

    async def schemas(self) -> list[SchemaInfo]:
        """The project's annotation schemes, with the trainers that fit."""
        return await self._driver.run(flows.several(SchemaInfo, calls.schemas(), "schemas", self._patience))

    async def backends(self) -> list[BackendInfo]:
        """Where runs can execute."""
        return await self._driver.run(
            flows.several(BackendInfo, calls.backends(), "backends", self._patience)
        )

    async def check(self, backend: str = "local") -> CheckReport:
        """Look whether a run could start on a backend; raises NotFound."""
        return await self._driver.run(flows.one(CheckReport, calls.check(backend), self._patience))

    async def register_backend(self, name: str) -> AgentToken:
        """A new token for the agents of a backend; the one before is worth nothing from then on.

        Raises NotFound, and Conflict (not_an_agent_backend).
        """
        return await self._driver.run(flows.one(AgentToken, calls.register(name), self._patience))

    async def health(self) -> dict[str, Any]:
        """Whether the server is up, and how far its controller is; needs no key."""
        return await self._driver.run(flows.plain(calls.health(), self._patience))

    def _run(self, record: RunRecord) -> AsyncRun:
        return AsyncRun(self._driver, self._patience, record)
