"""What stays on hosts of the runs' files, as the API tells it: the host's list, and how far each file is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

from potato_ray.backends.host_files import HostFile, HostFiles, is_here
from potato_ray.backends.left_on_host import LeftOnHost
from potato_ray.errors import Conflict, NotFound
from potato_ray.server.background import in_background
from potato_ray.server.remote_fetches import RemoteFetches
from potato_ray.ssh import SshTimeout

ANSWER_S: Final = 80.0
"""For a login and a list."""
FRESH_S: Final = 60.0
"""A list is taken as known for so long: who watches a fetch asks every second."""

Listing = tuple[float, "asyncio.Future[list[HostFile]]"]


class RemoteFiles:
    """One for a server, for its event loop alone. `files` makes what asks the host of one run."""

    def __init__(
        self,
        files: Callable[[LeftOnHost], HostFiles] = HostFiles,
        *,
        answer_s: float = ANSWER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.fetches = RemoteFetches(files)
        self._files = files
        self._answer_s = answer_s
        self._clock = clock
        self._listings: dict[str, Listing] = {}

    async def listing(self, left: LeftOnHost) -> list[dict[str, Any]]:
        """Every file that stays. Raises SshFailed, CopyFailed, NotFound."""
        files = await self._listed(left)
        return await in_background(lambda: [self._shown(left, each) for each in files], "remote-files")

    async def fetch(self, left: LeftOnHost, path: str) -> dict[str, Any]:
        """Begin to fetch a file, unless it is here or under way; how far it is. Raises as `listing` does."""
        file = await self._found(left, path)
        if not is_here(left.home, file.path, file.n_bytes):
            self.fetches.start(left, path)
        return self._shown(left, file)

    async def stop(self, left: LeftOnHost, path: str) -> dict[str, Any]:
        """Stop fetching a file; how far it is. Raises as `listing` does."""
        file = await self._found(left, path)
        self.fetches.stop(left.run_id, path)
        return self._shown(left, file)

    async def remove(self, left: LeftOnHost) -> None:
        """Remove all that stays. Raises SshFailed, CopyFailed, Conflict, ProjectUnwritable."""
        if self.fetches.are_under_way(left.run_id):
            raise Conflict(
                f"Files of run {left.run_id} are being fetched.",
                code="fetch_under_way",
                next_step="Wait until they are here, or stop that.",
            )
        self._listings.pop(left.run_id, None)
        await self._within(in_background(lambda: _remove(self._files(left)), "remote-files"), left)

    async def _found(self, left: LeftOnHost, path: str) -> HostFile:
        for file in await self._listed(left):
            if file.path == path:
                return file
        raise NotFound(
            f"No file {path!r} of run {left.run_id} stays on {left.host}."[:300],
            code="unknown_artifact",
            next_step="GET …/remote-files lists those that do.",
        )

    async def _listed(self, left: LeftOnHost) -> Sequence[HostFile]:
        """The host's list: a fresh one, or the one that somebody else has just asked for."""
        known = self._listings.get(left.run_id)
        if known is None or self._is_old(known, left):
            asked = in_background(lambda: _list(self._files(left)), "remote-files")
            known = self._listings[left.run_id] = (self._clock(), asked)
        future = known[1]
        return future.result() if future.done() else await self._within(future, left)

    def _is_old(self, known: Listing, left: LeftOnHost) -> bool:
        at, future = known
        if not future.done():
            return False
        if future.exception() is not None:
            return True
        return self._clock() - at > FRESH_S and not self.fetches.are_under_way(left.run_id)

    async def _within(self, future: asyncio.Future[Any], left: LeftOnHost) -> Any:
        try:
            return await asyncio.wait_for(asyncio.shield(future), self._answer_s)
        except TimeoutError:
            raise SshTimeout(
                f"ssh to {left.host} failed: No answer came within {self._answer_s:.0f} s",
                next_step="Look whether the host answers, and try again.",
            ) from None

    def _shown(self, left: LeftOnHost, file: HostFile) -> dict[str, Any]:
        fetch = self.fetches.find(left.run_id, file.path)
        body = {"path": file.path, "bytes": file.n_bytes}
        if fetch is not None:
            problem = fetch.failure.as_dict() if fetch.failure is not None else None
            return {**body, "state": fetch.state, "here_bytes": fetch.here_bytes, "problem": problem}
        here = is_here(left.home, file.path, file.n_bytes)
        state, n_bytes = ("here", file.n_bytes) if here else ("there", 0)
        return {**body, "state": state, "here_bytes": n_bytes, "problem": None}


def _list(files: HostFiles) -> list[HostFile]:
    with files:
        return files.listing()


def _remove(files: HostFiles) -> None:
    with files:
        files.remove()
