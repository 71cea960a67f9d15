"""The feed tells every entry once, however often a client reconnects and the server is another."""

from __future__ import annotations

import asyncio
import contextlib

from feed_clients import Project
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from potato_ray.errors import NotFound
from potato_ray.server import feed as feeds
from potato_ray.server.feed import Feed

steps = st.lists(
    st.one_of(
        st.tuples(st.just("begin")),
        st.tuples(st.just("say"), st.integers(0, 9), st.integers(1, 5)),
        st.tuples(st.just("end"), st.integers(0, 9)),
        st.tuples(st.just("prune"), st.integers(0, 2)),
        st.tuples(st.just("read"), st.integers(1, 6)),
        st.tuples(st.just("reconnect"), st.integers(0, 3)),
        st.tuples(st.just("restart")),
    ),
    min_size=4,
    max_size=25,
)


@given(script=steps)
@settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_entry_is_told_once_however_often_a_client_reconnects(project, monkeypatch, script) -> None:
    """Runs side by side, ends, notes after the end, prunes, connections cut within a page, new servers."""
    monkeypatch.setattr(feeds, "PAGE_MAX", 3)
    monkeypatch.setattr(feeds, "PAGES_MAX", 2)
    asyncio.run(Script(project).follow(script))


class Script:
    """One client through a list of steps, and what there was for it to hear."""

    def __init__(self, project: Project) -> None:
        self.project = project
        self.runs: list[str] = []
        self.ended: set[str] = set()
        self.there: set[int] = set()
        self.pruned: set[int] = set()
        self.heard: list[int] = []

    async def follow(self, script) -> None:
        await self._new_server()
        self.client = await self.project.client()
        self.beginning = self.client.number
        for name, *values in script:
            await getattr(self, f"_{name}")(*values)
            self._note_what_is_there()
        await self._reconnect(0)
        newest = max(self.there - self.pruned, default=0)
        await self.client.until(lambda c: c.number >= newest and c.statuses())
        await self._hang_up()
        assert self.heard == sorted(set(self.heard))
        assert self.there - self.pruned <= set(self.heard) <= self.there
        for run_id in set(self.runs) - self.ended:
            self.project.end(run_id)

    def _note_what_is_there(self) -> None:
        now = self.project.served.reader.journal(self.beginning, 10**18, 10_000).entries
        numbers = {entry.number for entry in now}
        self.pruned |= self.there - numbers
        self.there |= numbers

    async def _begin(self) -> None:
        self.runs.append(self.project.begin())

    async def _say(self, which: int, count: int) -> None:
        if self.runs:
            with contextlib.suppress(NotFound):
                self.project.say(self.runs[which % len(self.runs)], *["x"] * count)

    async def _end(self, which: int) -> None:
        alive = [run for run in self.runs if run not in self.ended]
        if alive:
            run_id = alive[which % len(alive)]
            self.ended.add(run_id)
            self.project.end(run_id)

    async def _prune(self, retain: int) -> None:
        self.project.link.write(self.project.registry.prune, retain)

    async def _read(self, chunks: int) -> None:
        for _ in range(chunks):
            with contextlib.suppress(TimeoutError):
                await self.client.next(within_s=0.03)
                continue
            await self._reconnect(0)  # a stream that was interrupted in the middle of waiting is over

    async def _reconnect(self, lost: int) -> None:
        """The connection breaks, and the last `lost` messages that were sent have not come through."""
        await self._hang_up(lost)
        self.client = await self.project.client(self.client.number)

    async def _restart(self) -> None:
        """Another server process takes over."""
        await self._hang_up()
        await self._new_server()
        self.client = await self.project.client(self.client.number)

    async def _new_server(self) -> None:
        self.project.feed.close()
        self.project.feed = Feed(self.project.served.context, poll_s=0.01)

    async def _hang_up(self, lost: int = 0) -> None:
        await self.client.close()
        numbers = [self.client.began, *(message.number for message in self.client.heard)]
        assert numbers == sorted(numbers)  # a status neither goes back nor passes anything over
        came = self.client.heard[: len(self.client.heard) - lost] if lost else self.client.heard
        self.heard += [message.number for message in came if message.event == "run"]
        self.client.number = came[-1].number if came else self.client.began
