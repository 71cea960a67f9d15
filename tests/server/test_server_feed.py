"""The feed: what clients hear of runs and of the controller, and no queue for anybody."""

from __future__ import annotations

import asyncio

import pytest
from feed_clients import parsed

from potato_ray.registry import State
from potato_ray.server import feed as feeds
from potato_ray.server.context import Phase, Unavailable
from potato_ray.server.feed import Feed


def test_a_client_begins_with_the_status_and_no_past(project) -> None:
    async def scenario() -> None:
        run_id = project.begin()
        client = await project.client()
        await client.next()
        assert client.raw == [b"retry: 2000\n\n"]
        await client.next()
        assert [each.event for each in client.heard] == ["status"]
        assert client.statuses()[0]["run"]["run_id"] == run_id
        await client.close()

    asyncio.run(scenario())


def test_every_change_of_a_run_and_every_event_is_told(project) -> None:
    async def scenario() -> None:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        run_id = project.begin()
        project.say(run_id, "one", "two")
        project.link.write(project.registry.request_cancel, run_id)
        project.end(run_id, State.CANCELLED)
        await client.until(lambda c: len(c.told()) == 7)
        told = ["queued", "building", 1, 2, "cancelling", 3, "cancelled"]
        assert client.told() == [(run_id, each) for each in told]
        await client.until(lambda c: c.statuses()[-1]["last"])
        assert client.statuses()[-1]["runs"] == []
        await client.close()

    asyncio.run(scenario())


def test_a_client_that_reconnects_goes_on_behind_what_it_has_seen(project) -> None:
    async def scenario() -> None:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        first, second = project.begin(), project.begin()
        project.say(first, "a", "b")
        await client.until(lambda c: (first, 2) in c.told())
        await client.close()
        project.say(second, "c")
        project.say(first, "d")
        again = await project.client(client.number)
        await again.until(lambda c: len(c.told()) == 2 and c.statuses())
        assert again.told() == [(second, 1), (first, 3)]
        await again.close()

    asyncio.run(scenario())


def test_a_status_never_comes_before_the_entries_that_its_number_passes_over(project) -> None:
    async def scenario() -> None:
        run_id = project.begin()
        project.say(run_id, *map(str, range(feeds.PAGE_MAX + 5)))
        client = await project.client(0)
        await client.until(lambda c: c.statuses())
        assert [each.event for each in client.heard].index("status") == len(client.heard) - 1
        assert len(client.told()) == feeds.PAGE_MAX + 7
        await client.close()

    asyncio.run(scenario())


def test_the_status_of_a_newcomer_does_not_lead_back_before_it_came(project) -> None:
    async def scenario() -> None:
        run_id = project.begin()
        client = await project.client()
        await client.until(lambda c: c.statuses())
        project.say(run_id, "changes nothing in the status")
        await client.until(lambda c: (run_id, 1) in c.told())
        again = await project.client(client.number)
        await again.until(lambda c: c.statuses())
        assert again.number == client.number
        await again.close()

    asyncio.run(scenario())


def test_one_run_is_told_from_its_beginning_and_nothing_of_others(project) -> None:
    async def scenario() -> None:
        run_id, other = project.begin(), project.begin()
        project.say(other, "not for you")
        project.say(run_id, "past")
        client = await project.client(0, run_id=run_id)
        await client.until(lambda c: c.statuses())
        project.say(other, "not for you either")
        project.say(run_id, "present")
        await client.until(lambda c: (run_id, 2) in c.told())
        assert client.told() == [(run_id, each) for each in ("queued", "building", 1, 2)]
        await client.close()

    asyncio.run(scenario())


def test_the_controllers_phase_is_a_change_too(project) -> None:
    async def scenario() -> None:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        project.link.phase = Phase.RESTARTING
        await client.until(lambda c: c.statuses()[-1]["state"] == "restarting")
        await client.close()

    asyncio.run(scenario())


def test_what_changes_nothing_that_is_shown_sends_no_status(project) -> None:
    async def scenario() -> None:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        project.link.write(project.registry.add_pins, ["rev-00001"])
        with pytest.raises(TimeoutError):
            await client.next(within_s=0.2)

    asyncio.run(scenario())


def test_many_changes_between_two_looks_are_one_status_the_newest(project) -> None:
    async def scenario() -> None:
        run_id = project.begin()
        project.feed = Feed(project.served.context, poll_s=0.2)
        client = await project.client()
        await client.until(lambda c: c.statuses())
        for number in range(20):
            project.link.write(project.registry.note_progress, run_id, 1, "building", number, 20)
        await client.next()
        assert [status["current"] for status in client.statuses()] == [0.0, 19.0]
        await client.close()

    asyncio.run(scenario())


def test_all_clients_get_the_same_bytes(project) -> None:
    async def scenario() -> None:
        clients = [await project.client() for _ in range(5)]
        for client in clients:
            await client.until(lambda c: c.statuses())
        run_id = project.begin()
        for client in clients:
            await client.until(lambda c: (run_id, "building") in c.told())
        assert len({client.raw[-1] for client in clients}) == 1

    asyncio.run(scenario())


def test_one_that_reads_slowly_reads_the_registry_when_its_page_is_gone(project, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "PAGES_MAX", 2)

    async def scenario() -> None:
        slow, fast = await project.client(), await project.client()
        await slow.until(lambda c: c.statuses())
        run_id = project.begin()
        for number in range(1, 8):
            project.say(run_id, "x")
            await fast.until(lambda c, number=number: (run_id, number) in c.told())
        assert len(project.feed._pages) <= 2
        await slow.until(lambda c: (run_id, 7) in c.told())
        assert slow.told() == fast.told()
        await slow.close()

    asyncio.run(scenario())


def test_without_news_there_is_a_heartbeat(project, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "HEARTBEAT_S", 0.05)

    async def scenario() -> None:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        heartbeat = await client.next()
        assert heartbeat.startswith(b": nothing new\n\n")
        assert [message.event for message in parsed(heartbeat)] == ["status"]
        await client.close()

    asyncio.run(scenario())


def test_the_news_of_another_run_is_no_reason_for_silence(project, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "HEARTBEAT_S", 0.2)

    async def scenario() -> None:
        followed, other = project.begin(), project.begin()
        client, witness = await project.client(run_id=followed), await project.client()
        for each in (client, witness):
            await each.until(lambda c: c.statuses())
        heartbeat = asyncio.create_task(client.next())
        for number in range(1, 400):
            project.say(other, "not for you")
            await witness.until(lambda c, number=number: (other, number) in c.told())
            if heartbeat.done():
                break
        assert heartbeat.result().startswith(b": nothing new\n\n")
        assert client.told() == []

    asyncio.run(scenario())


def test_a_stream_ends_when_its_session_does(project, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "HEARTBEAT_S", 0.05)
    allowed = [True]

    async def scenario() -> None:
        client = await project.client(allowed=lambda: allowed[0])
        await client.until(lambda c: c.statuses())
        allowed[0] = False
        with pytest.raises(StopAsyncIteration):
            await client.until(lambda c: False)

    asyncio.run(scenario())


def test_closing_ends_every_stream_and_lets_none_begin(project) -> None:
    async def scenario() -> None:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        waiting = asyncio.create_task(client.next())
        await asyncio.sleep(0)
        project.feed.close()
        project.feed.close()
        with pytest.raises(StopAsyncIteration):
            await waiting
        with pytest.raises(Unavailable):
            await project.feed.begin()

    asyncio.run(scenario())


def test_nobody_watches_when_nobody_listens(project, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "LINGER_S", 0.02)

    async def scenario() -> None:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        await client.close()
        await asyncio.wait_for(project.feed._watching, 5)
        again = await project.client()
        await again.until(lambda c: c.statuses())
        await again.close()

    asyncio.run(scenario())


def test_a_registry_that_is_replaced_is_told_from_its_first_entry(project) -> None:
    async def scenario() -> None:
        old = project.begin()
        client = await project.client(0)
        await client.until(lambda c: c.statuses())
        project.move_registry_away()
        await client.until(lambda c: c.statuses()[-1]["runs"] == [])
        project.link.write(project.registry.open)
        new = project.begin()
        await client.until(lambda c: (new, "building") in c.told())
        assert client.told() == [(run, each) for run in (old, new) for each in ("queued", "building")]
        await client.close()

    asyncio.run(scenario())


def test_a_registry_that_cannot_be_read_is_waited_for(project, caplog) -> None:
    path = project.served.config.registry_path

    async def scenario() -> None:
        client = await project.client()
        await client.until(lambda c: c.statuses())
        project.move_registry_away()
        path.write_text("this is no database, and long enough to be taken for one" * 20)
        with pytest.raises(TimeoutError):
            await client.next(within_s=0.2)
        path.unlink()
        project.link.write(project.registry.open)
        run_id = project.begin()
        again = await project.client(client.number)
        await again.until(lambda c: (run_id, "building") in c.told())
        await again.close()

    asyncio.run(scenario())
    assert caplog.text.count("the registry could not be looked at") == 1
