"""The feed: every entry once for whoever reconnects, the newest status, and no queue for anybody."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from potato_ray.errors import NotFound
from potato_ray.registry import NewRun, State
from potato_ray.server import feed as feeds
from potato_ray.server.context import Phase, Unavailable
from potato_ray.server.feed import Feed

NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",))
SLOTS = 99
ROUTE = "/admin/training/api/stream"


@dataclass(frozen=True)
class Message:
    event: str
    number: int
    data: dict[str, Any]


def parsed(raw: bytes) -> list[Message]:
    found = []
    for block in raw.decode("ascii").split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.split("\n") if ": " in line[1:])
        if "event" in fields:
            found.append(Message(fields["event"], int(fields["id"]), json.loads(fields["data"])))
    return found


class Client:
    """Reads a stream of a feed in this process."""

    def __init__(self, feed: Feed, number: int, run_id: str | None = None, allowed=lambda: True) -> None:
        self.began = self.number = number
        self.raw: list[bytes] = []
        self.heard: list[Message] = []
        self._stream = feed.stream(number, run_id, allowed)

    async def next(self, within_s: float = 5.0) -> bytes:
        chunk = await asyncio.wait_for(anext(self._stream), within_s)
        self.raw.append(chunk)
        for message in parsed(chunk):
            self.heard.append(message)
            self.number = message.number
        return chunk

    async def until(self, reached) -> None:
        while not reached(self):
            await self.next()

    async def close(self) -> None:
        await self._stream.aclose()

    def told(self) -> list[tuple[str, object]]:
        """(run id, event id or status) of each `run` message."""
        runs = [each.data for each in self.heard if each.event == "run"]
        return [(data["run_id"], data.get("id") or data["status"]) for data in runs]

    def statuses(self) -> list[dict[str, Any]]:
        return [each.data for each in self.heard if each.event == "status"]


class Project:
    """A project with a feed, and runs that a test moves along."""

    def __init__(self, served) -> None:
        self.served = served
        self.link = served.controller
        self.registry = served.controller.registry
        self.feed = Feed(served.context, poll_s=0.01)

    def begin(self) -> str:
        rule = {"queue_max": 99, "allow_queue": True, "max_concurrent": SLOTS}
        run_id = self.link.write(self.registry.create_run, NEW, **rule).run_id
        self.link.write(self.registry.begin, run_id, None, SLOTS)
        return run_id

    def say(self, run_id: str, *messages: str) -> None:
        for message in messages:
            said = {"event": "log", "level": "info", "message": message}
            self.link.write(self.registry.record_note, run_id, 1, said)

    def end(self, run_id: str, state: State = State.ERROR) -> None:
        self.link.write(self.registry.transition, run_id, 1, state)

    def move_registry_away(self) -> None:
        self.link.write(self.registry.close)
        folder = self.served.config.registry_path.parent
        for each in folder.glob("project.sqlite*"):
            each.rename(each.with_name(f"old.{each.name}"))

    async def client(self, number: int | None = None, **kwargs: Any) -> Client:
        now = await self.feed.begin()
        return Client(self.feed, now if number is None else number, **kwargs)


@pytest.fixture
def project(serve):
    made = Project(serve(max_concurrent_runs=9))
    yield made
    made.feed.close()


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
        await client.until(lambda c: len(c.told()) == 6)
        told = ["queued", "building", 1, 2, "cancelling", "cancelled"]
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


@pytest.mark.parametrize("cursor", ["x", "-1", "1.5", "9" * 30, "٣"])
def test_a_malformed_cursor_is_refused(serve, cursor) -> None:
    client = serve().client
    answers = [client.get(ROUTE, params={"after": cursor})]
    with contextlib.suppress(UnicodeEncodeError):
        answers.append(client.get(ROUTE, headers={"Last-Event-ID": cursor}))
    for answer in answers:
        assert answer.status_code == 400
        assert answer.headers["content-type"] == "application/problem+json"
        assert answer.json()["next_step"]


def test_the_stream_of_a_run_that_is_not_there_is_refused(serve) -> None:
    answer = serve().client.get(ROUTE, params={"run_id": "nope"})
    assert (answer.status_code, answer.json()["error_code"]) == (404, "unknown_run")


def test_the_stream_of_a_browser_ends_with_its_session(serve, monkeypatch) -> None:
    monkeypatch.setattr(feeds, "HEARTBEAT_S", 0.05)
    served = serve()
    keeper = served.app.state.keeper
    token = keeper.sessions.open()
    served.anonymous.cookies.set(keeper.cookie, token)
    logout = threading.Timer(0.5, keeper.sessions.end, [token])
    logout.start()
    answer = served.anonymous.get(ROUTE)  # comes back when the stream has ended
    assert answer.status_code == 200
    assert [message.event for message in parsed(answer.content)][:2] == ["status", "status"]
    assert served.anonymous.get(ROUTE).status_code == 401


def test_without_the_key_there_is_no_stream(serve) -> None:
    assert serve().anonymous.get(ROUTE).status_code == 401
