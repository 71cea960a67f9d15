"""The feed's watcher: there as long as somebody listens, and it tells at once what it could see."""

from __future__ import annotations

import asyncio
import sqlite3

from feed_clients import Client, Project

from potato_ray.registry.watch import Look
from potato_ray.server import feed as feeds


def test_one_that_comes_during_the_watchers_last_look_is_told_what_follows(
    project: Project, monkeypatch
) -> None:
    monkeypatch.setattr(feeds, "LINGER_S", project.feed._poll_s)
    looked, came = project.feed._looked, asyncio.Event()

    async def scenario() -> None:
        client = Client(project.feed, await project.feed.begin())

        async def look_while_somebody_comes() -> bool:
            if not came.is_set():
                await client.until(lambda c: c.statuses())
                came.set()
            return await looked()

        monkeypatch.setattr(project.feed, "_looked", look_while_somebody_comes)
        await asyncio.wait_for(came.wait(), 5)
        run_id = project.begin()
        await client.until(lambda c: (run_id, "building") in c.told())
        await client.close()

    asyncio.run(scenario())


def test_what_was_seen_before_a_look_failed_is_told_at_once(project: Project, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "PAGE_MAX", 3)
    see = project.feed._see

    def see_the_first_page(after: int | None, anyway: bool) -> Look | None:
        if anyway and after is not None:
            raise sqlite3.OperationalError("disk I/O error")
        return see(after, anyway)

    async def scenario() -> list[object]:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        monkeypatch.setattr(project.feed, "_see", see_the_first_page)
        run_id = project.begin()
        project.say(run_id, *"abcd")
        await client.until(lambda c: len(c.told()) >= 3)
        await client.close()
        return [each for _, each in client.told()][:3]

    assert asyncio.run(scenario()) == ["queued", "building", 1]
