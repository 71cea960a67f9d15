"""Agents that were heard of: noted in memory, and told to the controller together, now and then."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from potato_ray.server.context import ControllerLink, Phase

logger = logging.getLogger(__name__)

LOOK_EVERY_S = 1.0
"""How soon a new agent, or one with another job in hand, is told of."""
TELL_EVERY_S = 15.0
"""How often it is told that agents are still there."""
LEAVES_AFTER_S = 10.0
"""One that hung up, or has sent a result, and does not come back within that has left."""
MOST = 2000
"""The agents that are remembered between two tellings."""


class Sightings:
    """The agents of one application, all on its event loop. `clock` gives epoch seconds UTC."""

    def __init__(
        self,
        controller: ControllerLink,
        clock: Callable[[], float] = time.time,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._controller = controller
        self._clock = clock
        self._sleep = sleep
        self._seen: dict[tuple[str, str], dict[str, Any]] = {}
        self._known: dict[tuple[str, str], dict[str, Any]] = {}
        self._leaving: dict[tuple[str, str], tuple[float, dict[str, Any]]] = {}
        self._told_at = float("-inf")
        self._trouble = ""
        self._telling: asyncio.Task[None] | None = None

    def note(self, backend: str, agent: Mapping[str, Any], run_id: str = "") -> None:
        """An agent was heard of now. `agent` is what it said of itself at its claim."""
        key = (backend, str(agent.get("id", "")))
        self._leaving.pop(key, None)
        if len(self._seen) < MOST or key in self._seen:
            self._seen[key] = self._said(agent, run_id)
        self._begin_to_tell()

    def may_leave(self, backend: str, agent: Mapping[str, Any]) -> None:
        """An agent has hung up, or has ended its job; unless it comes back soon, it has left."""
        key = (backend, str(agent.get("id", "")))
        if len(self._leaving) < MOST or key in self._leaving:
            self._leaving[key] = self._clock(), self._said(agent, has_left=True)
        self._begin_to_tell()

    def _said(self, agent: Mapping[str, Any], run_id: str = "", *, has_left: bool = False) -> dict[str, Any]:
        known = {"run_id": run_id, "last_seen": self._clock(), "has_left": has_left}
        return {**_fields(agent), **known}

    def _begin_to_tell(self) -> None:
        if self._telling is None or self._telling.done():
            self._telling = asyncio.create_task(self._keep_telling())

    def stop(self) -> None:
        """Tell nothing more."""
        if self._telling is not None:
            self._telling.cancel()

    async def _keep_telling(self) -> None:
        """As long as there is something to tell; the next note begins again."""
        while (self._seen or self._leaving) and self._controller.phase is not Phase.STOPPING:
            await self._sleep(LOOK_EVERY_S)
            self._see_leave()
            if self._seen and self._is_due() and self._controller.phase is Phase.READY:
                await self._tell()

    def _see_leave(self) -> None:
        """Those that have not come back."""
        for key, (since, said) in list(self._leaving.items()):
            if not 0 <= self._clock() - since < LEAVES_AFTER_S:
                del self._leaving[key]
                self._seen[key] = said

    def _is_due(self) -> bool:
        if not 0 <= self._clock() - self._told_at < TELL_EVERY_S:
            return True
        return any(_lasting(said) != _lasting(self._known.get(key, {})) for key, said in self._seen.items())

    async def _tell(self) -> None:
        seen, self._seen = self._seen, {}
        by_backend: dict[str, list[dict[str, Any]]] = {}
        for (backend, _), said in seen.items():
            by_backend.setdefault(backend, []).append(said)
        try:
            for backend, agents in by_backend.items():
                await self._controller.command("agents_seen", backend, agents)
        except Exception as error:  # noqa: BLE001 - told again with the next look
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger.warning("the agents that were seen could not be recorded, trying again: %s", error)
            self._seen = {**seen, **self._seen}
            return
        self._told_at, self._trouble = self._clock(), ""
        self._known.update(seen)
        for key in list(self._known)[:-MOST]:
            del self._known[key]


def _fields(agent: Mapping[str, Any]) -> dict[str, Any]:
    told = {name: agent.get(name, "") for name in ("host", "python", "version", "workdir", "executable")}
    lists = {name: list(agent.get(name, ())) for name in ("gpus", "lacks")}
    return {"agent_id": str(agent.get("id", "")), **told, **lists}


def _lasting(said: Mapping[str, Any]) -> dict[str, Any]:
    """What is told of at once when it changes. A GPU's free memory changes all the time."""
    return {name: each for name, each in said.items() if name not in ("agent_id", "gpus", "last_seen")}
