"""The SlurmAdapter: an actor for each slurm backend, which keeps the one login that all its runs share.

    login ──▶ the control path of a login that stands ── joined by each run (Connection.join)
      │         └── lost ─▶ why_lost says so in ssh's words, and the next `login` makes another
      └── used by nobody for IDLE_S ─▶ logged out

A login node takes many logins for an attack. With the actor's process its login goes, and nothing else: the
runs of the backend ask again, and whoever asks finds, or is given, another actor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable
from typing import Any, Final

import ray

from potato_ray.actors.embedded import restore_home
from potato_ray.backends.host_line import IDLE_S
from potato_ray.ssh import Destination, SharedLogin, SshFailed

logger = logging.getLogger(__name__)

LOOK_EVERY_S: Final = 5.0
REFUSED_FOR_S: Final = 4.0
"""So long a login that failed answers for who asks next: runs that were cut off ask one after another."""
SETTLE_S: Final = 2.0
"""How long ssh's end may take to be seen once its socket has gone."""
_KEPT: Final = 16


class SlurmAdapter:
    """Wrapped as a Ray actor by `start_adapter`; the class itself can be read without Ray.

    `open_login` logs in, or raises SshFailed within its own deadline. `clock` is monotonic seconds.
    """

    def __init__(
        self,
        destination: Destination,
        *,
        idle_s: float = IDLE_S,
        look_every_s: float = LOOK_EVERY_S,
        open_login: Callable[[Destination], SharedLogin] = SharedLogin,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        restore_home()
        self._destination = destination
        self._idle_s = idle_s
        self._look_every_s = look_every_s
        self._open_login = open_login
        self._clock = clock
        self._login: SharedLogin | None = None
        self._used_at = clock()
        self._refused: tuple[float, SshFailed] | None = None
        self._ended: dict[str, SshFailed] = {}
        self._changing = asyncio.Lock()
        self._asked: asyncio.Task[str] | None = None
        self._minding: asyncio.Task[None] | None = None

    async def login(self) -> str:
        """The control path of a login that stands, made if there is none. Raises SshFailed.

        Those who ask at once get the same answer, whatever it is.
        """
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(self._standing())
        return await asyncio.shield(self._asked)

    async def why_lost(self, control_path: str) -> SshFailed | None:
        """Why the login at that path has ended, in ssh's words; None where it has not, or nobody knows."""
        login = self._login
        if control_path not in self._ended and login is not None and login.control_path == control_path:
            return await asyncio.to_thread(login.lost, SETTLE_S)
        return self._ended.get(control_path)

    async def close(self) -> None:
        """Log out."""
        if self._minding is not None:
            self._minding.cancel()
        async with self._changing:
            await self._let_go()

    async def _standing(self) -> str:
        async with self._changing:
            self._used_at = self._clock()
            login = self._login
            if login is not None and await asyncio.to_thread(_is_alive, login):
                return login.control_path
            await self._let_go()
            self._login = login = await self._made()
            self._used_at = self._clock()
            if self._minding is None or self._minding.done():
                self._minding = asyncio.create_task(self._mind())
            return login.control_path

    async def _made(self) -> SharedLogin:
        if self._refused is not None and self._clock() - self._refused[0] < REFUSED_FOR_S:
            raise self._refused[1]
        try:
            login = await asyncio.to_thread(self._open_login, self._destination)
        except SshFailed as failure:
            self._refused = (self._clock(), failure)
            raise
        self._refused = None
        return login

    async def _mind(self) -> None:
        """Log out once nobody has used the login for a while."""
        while self._login is not None:
            await asyncio.sleep(self._look_every_s)
            async with self._changing:
                try:
                    await self._look()
                except Exception:
                    logger.exception("the login to %s could not be looked at", self._destination.host)

    async def _look(self) -> None:
        login = self._login
        if login is None:
            return
        if not await asyncio.to_thread(_is_alive, login):
            await self._let_go()
        elif login.is_used:
            self._used_at = self._clock()
        elif self._clock() - self._used_at >= self._idle_s and await asyncio.to_thread(login.close_if_unused):
            self._login = None

    async def _let_go(self) -> None:
        """End what is left of a login, and keep the words with which it ended."""
        login = self._login
        if login is None:
            return
        lost = await asyncio.to_thread(login.lost, SETTLE_S)
        if lost is not None:
            self._ended[login.control_path] = lost
            for path in list(self._ended)[:-_KEPT]:
                del self._ended[path]
        self._login = None
        await asyncio.to_thread(login.close)


def start_adapter(backend: str, destination: Destination) -> Any:
    """The adapter of a backend, started if there is none. It lives as long as the session of Ray."""
    actor = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(SlurmAdapter)
    name = f"slurm-adapter-{backend}"
    return actor.options(name=name, lifetime="detached", get_if_exists=True).remote(destination)


def _is_alive(login: SharedLogin) -> bool:
    return login.is_alive
