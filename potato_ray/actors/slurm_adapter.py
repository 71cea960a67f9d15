"""The SlurmAdapter: an actor for each slurm backend, which keeps the login that all its runs share.

    login ──▶ the control path of a login that stands ── joined by each run (Connection.join)
      │         ├── lost ─▶ why_lost says so in ssh's words, and the next `login` makes another
      │         └── has all the sessions that the host allows ─▶ who says so is given one beside it
      └── used by nobody for IDLE_S ─▶ logged out

A login node takes many logins for an attack. With the actor's process its login goes, and nothing else: the
runs of the backend ask again, and whoever asks finds, or is given, another actor.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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
MOST_LOGINS: Final = 32
"""At a time; with the usual ten sessions in each they are enough for a hundred runs."""
_KEPT: Final = 16


@dataclass
class _Kept:
    """A login, and when anybody was last known to use it."""

    login: SharedLogin
    used_at: float


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
        self._kept: dict[str, _Kept] = {}
        self._refused: tuple[float, SshFailed] | None = None
        self._ended: dict[str, SshFailed] = {}
        self._changing = asyncio.Lock()
        self._asked: set[asyncio.Task[str]] = set()
        self._minding: asyncio.Task[None] | None = None

    async def login(self, full: Sequence[str] = ()) -> str:
        """The control path of a login that stands, made if there is none. Raises SshFailed.

        It is none of those that are `full`: that have refused a session. Those who ask at once get the same
        answer, whatever it is.
        """
        task = asyncio.create_task(self._standing(full))
        self._asked.add(task)
        task.add_done_callback(self._asked.discard)
        # A login that is being made is for all, also when the one who asked first has gone.
        return await asyncio.shield(task)

    async def why_lost(self, control_path: str) -> SshFailed | None:
        """Why the login at that path has ended, in ssh's words; None where it has not, or nobody knows."""
        kept = self._kept.get(control_path)
        if control_path not in self._ended and kept is not None:
            return await asyncio.to_thread(kept.login.lost, SETTLE_S)
        return self._ended.get(control_path)

    async def close(self) -> None:
        """Log out."""
        if self._minding is not None:
            self._minding.cancel()
        async with self._changing:
            for path in list(self._kept):
                await self._let_go(path)

    async def _standing(self, full: Sequence[str]) -> str:
        async with self._changing:
            # The oldest first, so that those made beside it are left as soon as they are not needed.
            for path in [path for path in self._kept if path not in full]:
                kept = self._kept[path]
                if await asyncio.to_thread(_is_alive, kept.login):
                    kept.used_at = self._clock()
                    return path
                await self._let_go(path)
            if len(self._kept) >= MOST_LOGINS:
                raise _too_many(self._destination.host)
            login = await self._made()
            self._kept[login.control_path] = _Kept(login, self._clock())
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
        """Log out once nobody has used a login for a while."""
        while self._kept:
            await asyncio.sleep(self._look_every_s)
            async with self._changing:
                try:
                    await self._look()
                except Exception:
                    logger.exception("the logins to %s could not be looked at", self._destination.host)

    async def _look(self) -> None:
        for path, kept in list(self._kept.items()):
            login = kept.login
            if not await asyncio.to_thread(_is_alive, login):
                await self._let_go(path)
            elif login.is_used:
                kept.used_at = self._clock()
            elif self._is_idle(kept) and await asyncio.to_thread(login.close_if_unused):
                del self._kept[path]

    def _is_idle(self, kept: _Kept) -> bool:
        return self._clock() - kept.used_at >= self._idle_s

    async def _let_go(self, path: str) -> None:
        """End what is left of a login, and keep the words with which it ended."""
        login = self._kept[path].login
        lost = await asyncio.to_thread(login.lost, SETTLE_S)
        if lost is not None:
            self._ended[path] = lost
            for old in list(self._ended)[:-_KEPT]:
                del self._ended[old]
        del self._kept[path]
        await asyncio.to_thread(login.close)


def start_adapter(backend: str, destination: Destination) -> Any:
    """The adapter of a backend, started if there is none. It lives as long as the session of Ray."""
    actor = ray.remote(num_cpus=0, max_restarts=0, max_task_retries=0)(SlurmAdapter)
    name = f"slurm-adapter-{backend}"
    return actor.options(name=name, lifetime="detached", get_if_exists=True).remote(destination)


def _is_alive(login: SharedLogin) -> bool:
    return login.is_alive


def _too_many(host: str) -> SshFailed:
    return SshFailed(
        f"ssh to {host} failed: There are {MOST_LOGINS} logins, each with all sessions that the host allows",
        evidence="(the backend's runs share these logins)",
        next_step=f"Ask the administrator of {host} for a larger `MaxSessions` in sshd_config"
        " (10 is the default), or lower max_concurrent_runs.",
    )
