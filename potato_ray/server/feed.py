"""What all open streams share: one watcher of the registry, and messages that are encoded once.

    registry ── RegistryWatch ── Feed ──┬── client at number 41: gets the page 41 → 44
                (one look for all)      ├── client at number 41: the same bytes
                                        └── client at number 12: reads 13 … 44 from the registry

A client is a number of the journal: it has seen all up to it. Nothing is queued for anybody, so a client
that reads slowly takes no more memory than one that reads fast.
"""

from __future__ import annotations

import asyncio
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import anyio
from fastapi import FastAPI

from potato_ray.errors import PotatoRayError
from potato_ray.registry.snapshot import Snapshot
from potato_ray.registry.watch import Look, RegistryWatch
from potato_ray.server import messages
from potato_ray.server.context import ServerContext, Unavailable
from potato_ray.server.messages import Page
from potato_ray.server.overview import overview

logger = logging.getLogger(__name__)

POLL_S = 0.25
"""How often the registry is asked for changes, and so the shortest time between two statuses."""
HEARTBEAT_S = 15.0
LINGER_S = 5.0
"""How long the watcher goes on without a client: one that reconnects finds it at work."""
FRESH_S = 1.0
"""A new client gets a status that was written at most so long ago."""
PAGE_MAX = 200
"""The most entries in a page."""
PAGES_MAX = 32
PAGES_BYTES_MAX = 4 * 1024 * 1024
"""How much is kept for those that have not come to it yet; who comes later reads the registry."""


class Feed:
    """The streams of one application, all on its event loop."""

    def __init__(
        self, context: ServerContext, clock: Callable[[], float] = time.time, poll_s: float = POLL_S
    ) -> None:
        self.context = context
        self.stopping = anyio.Event()
        """Set it when the server stops: the feed closes at the next look."""
        self._clock = clock
        self._poll_s = poll_s
        self._watch = RegistryWatch(context.config.registry_path)
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="registry-watch")
        self._starting = asyncio.Lock()
        self._watching: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._clients = 0
        self._closed = False
        self._beats = 0
        self._tail = 0
        self._pages: dict[int, Page] = {}
        self._snapshot = Snapshot()
        self._phase: object = None
        self._shown: dict[str, Any] = {}
        self._status_no = 0
        self._status = _NO_STATUS
        self._trouble = ""

    async def begin(self) -> int:
        """See to it that the registry is watched; the number of a client that begins at now.

        Raises ProjectUnreadable, Unavailable.
        """
        async with self._starting:
            if self._closed:
                raise Unavailable("The server is stopping.", next_step="Try again when it is up.")
            if self._watching is None or self._watching.done():
                await self._look(afresh=True)
                self._watching = asyncio.create_task(self._keep_watching())
        return self._tail

    async def stream(
        self, number: int, run_id: str | None = None, allowed: Callable[[], bool] = lambda: True
    ) -> AsyncIterator[bytes]:
        """What a client is sent that has seen all up to `number`; of one run alone with `run_id`.

        Statuses come only to a client that has seen all entries before them, since their number would
        make it pass those over. Ends when the feed is closed, or once the client isn't `allowed` any more.
        """
        with self._counted():
            await self.begin()
            status_no, beats = 0, self._beats
            yield messages.RETRY
            while not self._closed and allowed():
                changed, said = self._changed, b""
                if number != self._tail:
                    number, said = await self._behind(number, run_id)
                up_to_date = number == self._tail
                if up_to_date and status_no != self._status_no:
                    status_no, said = self._status_no, said + self._status_now()
                if not said and beats != self._beats:
                    # Scripts in a page can't see a comment; the status tells them that the line lives.
                    said = messages.HEARTBEAT + (self._status_now() if up_to_date else b"")
                if said:
                    beats = self._beats
                    yield said
                elif up_to_date:
                    await changed.wait()

    def close(self) -> None:
        """End every stream at once, and begin no other. To be called on the event loop."""
        if self._closed:
            return
        self._closed = True
        if self._watching is not None:
            self._watching.cancel()
        self._thread.submit(self._watch.close)
        self._thread.shutdown(wait=False)
        self._wake()

    @contextmanager
    def _counted(self) -> Iterator[None]:
        self._clients += 1
        try:
            yield
        finally:
            self._clients -= 1

    async def _behind(self, number: int, run_id: str | None) -> tuple[int, bytes]:
        """The next messages for a client that is not up to date, and the number that it has come to."""
        tail = self._tail
        if number > tail:
            return tail, b""  # it comes from a file that an older one has replaced
        page = self._pages.get(number)
        if page is not None:
            return page.upto, page.of(run_id)
        try:
            part = await asyncio.to_thread(self.context.reader.journal, number, tail, PAGE_MAX, run_id)
        except (PotatoRayError, sqlite3.Error) as error:
            logger.warning("the journal could not be read, trying again: %s", error)
            await asyncio.sleep(self._poll_s)
            return number, b""
        return part.upto, b"".join(messages.of_entry(self.context, entry) for entry in part.entries)

    def _status_now(self) -> bytes:
        """The status with the present number, and the time of at most FRESH_S ago."""
        number, at, message = self._status
        now = self._clock()
        if number != self._tail or not 0 <= now - at < FRESH_S:
            message = messages.of_status(self._tail, overview(self.context, self._snapshot, now))
            self._status = (self._tail, now, message)
        return message

    # Watching

    async def _keep_watching(self) -> None:
        """Look for changes as long as there are clients."""
        alone_s, beat_at = 0.0, time.monotonic() + HEARTBEAT_S
        try:
            while not self.stopping.is_set():
                await asyncio.sleep(self._poll_s)
                await self._looked()
                alone_s = 0.0 if self._clients else alone_s + self._poll_s
                if alone_s >= LINGER_S:
                    # At once, with no await in between: who comes later has to find no watcher here.
                    break
                if time.monotonic() >= beat_at:
                    # Whatever there was: news of one run is none to a client that follows another.
                    beat_at = time.monotonic() + HEARTBEAT_S
                    self._beats += 1
                    self._wake()
            if self.stopping.is_set():
                self.close()
        finally:
            if not self._closed:
                self._thread.submit(self._watch.close)

    async def _looked(self) -> None:
        """Look; trouble is logged once, and the next look tries again."""
        try:
            await self._look()
        except Exception as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger.warning("the registry could not be looked at, trying again", exc_info=error)
        else:
            self._trouble = ""

    async def _look(self, afresh: bool = False) -> None:
        """See what was committed and how the controller is; tell the clients what is new, if anything is."""
        loop = asyncio.get_running_loop()
        look = await loop.run_in_executor(self._thread, self._see, None if afresh else self._tail, afresh)
        controller = self.context.controller
        phase = (controller.phase, controller.trouble)
        if look is None and phase == self._phase:
            return
        self._phase = phase
        news = False
        try:
            while look is not None:
                news = self._take(look, afresh) or news
                more = look.more
                look = await loop.run_in_executor(self._thread, self._see, self._tail, True) if more else None
            news = self._status_changed() or news
        finally:
            # Also when a later part could not be read: the clients can have what came before it.
            if news:
                self._wake()

    def _see(self, after: int | None, anyway: bool) -> Look | None:
        """In the watcher's thread: what is there; None when nothing was committed since the last time."""
        return self._watch.look(after, PAGE_MAX) if self._watch.changed() or anyway else None

    def _take(self, look: Look, afresh: bool) -> bool:
        """Keep what a look saw; whether it saw entries. One `afresh` asked for none."""
        self._snapshot = look.snapshot
        before, self._tail = self._tail, self._tail if look.upto is None else look.upto
        if before != self._tail and not afresh:
            self._pages[before] = messages.page(self.context, self._tail, look.entries)
        while len(self._pages) > PAGES_MAX or self._kept_bytes() > PAGES_BYTES_MAX:
            self._pages.pop(next(iter(self._pages)))
        return bool(look.entries)

    def _kept_bytes(self) -> int:
        return sum(len(page.everything) for page in self._pages.values())

    def _status_changed(self) -> bool:
        """Whether anything but the time is another than before."""
        shown = overview(self.context, self._snapshot, 0.0)
        if shown == self._shown:
            return False
        self._shown = shown
        self._status_no += 1
        self._status = _NO_STATUS
        return True

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


_NO_STATUS = (-1, 0.0, b"")


def feed_of(app: FastAPI) -> Feed:
    """The feed of an application, made when it is first asked for. On the event loop alone."""
    if not hasattr(app.state, "feed"):
        app.state.feed = Feed(app.state.context)
    feed: Feed = app.state.feed
    return feed
