"""Long polls: one run goes to one lease, soon, and those who wait cost next to nothing."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_jobs import AGENT, digest
from agent_link import AGENT_BACKENDS, NAME, AgentLink

from potato_ray.config import ProjectConfig
from potato_ray.errors import Conflict
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.states import State
from potato_ray.server.agent_access import Tokens, of_backends
from potato_ray.server.agent_polls import Polls
from potato_ray.server.agent_view import Claimed, Views
from potato_ray.server.context import Phase, ServerContext, Unavailable
from potato_ray.server.problems import Rejected

SOON_S = 1.0


class Waiting:
    """Polls of a project, and agents that wait in them."""

    def __init__(self, config: ProjectConfig) -> None:
        self.link = AgentLink(config)
        self.context = ServerContext(config, RegistryReader(config.registry_path), self.link, admin_key="k")
        self.polls = Polls(self.context)

    async def claim(
        self, lease: str, wait_s: float = 5.0, backend: str = NAME, gone: Any = None
    ) -> dict[str, Any] | None:
        hung_up = gone or asyncio.get_running_loop().create_future()
        return await self.polls.claim(backend, digest(lease), AGENT, wait_s, hung_up)

    def begin(self, lease: str, **how: Any) -> asyncio.Task[dict[str, Any] | None]:
        return asyncio.ensure_future(self.claim(lease, **how))


def handles_of_the_registry() -> int:
    """How many files of a registry this process has open."""
    opened = [os.path.realpath(each) for each in Path("/proc/self/fd").iterdir()]
    return sum(name.endswith("project.sqlite") for name in opened)


Scenario = Callable[[Waiting], Awaitable[None]]


@pytest.fixture
def play(make_config: Callable[..., ProjectConfig]) -> Iterator[Callable[[Scenario], Waiting]]:
    made: list[Waiting] = []

    def run(scenario: Scenario) -> Waiting:
        made.append(Waiting(make_config(backends=AGENT_BACKENDS, max_concurrent_runs=9)))

        async def bounded() -> None:
            await asyncio.wait_for(scenario(made[-1]), 30)

        asyncio.run(bounded())
        return made[-1]

    yield run
    for each in made:
        each.link.close()


@pytest.mark.alone
def test_a_poll_without_a_job_ends_after_its_time(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        began = time.monotonic()
        assert await waiting.claim("a", wait_s=0.5) is None
        assert 0.5 <= time.monotonic() - began < 2
        assert len(waiting.polls) == 0

    assert play(scenario).link.commands == []


@pytest.mark.alone
def test_a_run_that_is_offered_goes_to_the_one_who_waits_within_a_second(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        poll = waiting.begin("a")
        await asyncio.sleep(0.3)
        run_id = waiting.link.offer()
        began = time.monotonic()
        job = await poll
        assert time.monotonic() - began < SOON_S
        assert job is not None
        assert (job["run_id"], job["attempt"]) == (run_id, 1)

    play(scenario)


def test_a_run_that_waits_goes_to_the_one_who_comes(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        run_id = waiting.link.offer()
        job = await waiting.claim("a")
        assert job is not None
        assert job["run_id"] == run_id

    play(scenario)


def test_each_run_goes_to_one_agent_and_those_who_waited_longest_come_first(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        polls = [waiting.begin(f"lease-{number}", wait_s=2.0) for number in range(5)]
        await asyncio.sleep(0.3)
        offered = [waiting.link.offer() for _ in range(3)]
        jobs = await asyncio.gather(*polls)
        assert [job["run_id"] if job else None for job in jobs] == [*offered, None, None]

    play(scenario)


def test_a_run_of_another_backend_is_for_none_of_these(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        waiting.link.offer("laptop")
        assert await waiting.claim("a", wait_s=0.5) is None
        assert await waiting.claim("b", backend="laptop") is not None

    play(scenario)


def test_the_same_lease_gets_the_same_job_again_also_from_a_server_that_was_restarted(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        waiting.link.offer()
        waiting.link.offer()
        first = await waiting.claim("a")
        again = await waiting.claim("a")
        waiting.polls = Polls(waiting.context)
        assert first == again == await waiting.claim("a")
        assert waiting.link.commands == ["claim"]
        other = await waiting.claim("b")
        assert other is not None
        assert other["run_id"] != first["run_id"]

    play(scenario)


def test_the_registry_is_let_go_when_the_event_loop_ends_under_a_poll(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        before = handles_of_the_registry()
        waiting.begin("a")
        while handles_of_the_registry() == before:
            await asyncio.sleep(0.01)

    # SQLite keeps what another connection of the process may still need: that one goes first.
    link = play(scenario).link
    link.write(link.registry.close)
    deadline = time.monotonic() + SOON_S * 5
    while handles_of_the_registry() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert handles_of_the_registry() == 0


def test_a_job_that_takes_longer_to_make_than_the_poll_is_had_with_the_next_one(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        waiting.link.making_s = 0.8
        run_id = waiting.link.offer()
        assert await waiting.claim("a", wait_s=0.4) is None
        job = await waiting.claim("a")
        assert job is not None
        assert job["run_id"] == run_id
        assert waiting.link.commands == ["claim"]

    play(scenario)


def test_an_agent_that_hangs_up_gives_its_place_away(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        gone = asyncio.get_running_loop().create_future()
        first = waiting.begin("a", gone=gone)
        second = waiting.begin("b")
        await asyncio.sleep(0.3)
        gone.set_result(None)
        assert await first is None
        waiting.link.offer()
        assert await second is not None

    play(scenario)


def test_an_agent_that_hangs_up_while_it_is_given_a_run_finds_it_when_it_comes_back(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        waiting.link.claiming_s = 0.5
        gone = asyncio.get_running_loop().create_future()
        first = waiting.begin("a", gone=gone)
        run_id = waiting.link.offer()
        while "claim" not in waiting.link.commands:
            await asyncio.sleep(0.02)
        gone.set_result(None)
        assert await first is None
        job = await waiting.claim("a")
        assert job is not None
        assert job["run_id"] == run_id
        assert waiting.link.commands == ["claim"]

    play(scenario)


def test_a_second_poll_with_a_lease_takes_the_place_of_the_first(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        first = waiting.begin("a")
        await asyncio.sleep(0.3)
        second = waiting.begin("a")
        assert await first is None
        waiting.link.offer()
        assert await second is not None

    play(scenario)


@pytest.mark.alone
def test_without_a_free_slot_a_run_stays_on_offer_until_another_has_ended(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        waiting.link.slots = 1
        first = await _offered_and_claimed(waiting)
        waiting.link.offer()
        poll = waiting.begin("b", wait_s=10)
        await asyncio.sleep(1.0)
        assert not poll.done()
        assert waiting.link.commands.count("claim") <= 3
        waiting.link.move(first, State.ERROR)
        began = time.monotonic()
        assert await poll is not None
        assert time.monotonic() - began < SOON_S

    play(scenario)


async def _offered_and_claimed(waiting: Waiting) -> str:
    waiting.link.offer()
    job = await waiting.claim("a")
    assert job is not None
    return str(job["run_id"])


def test_a_lease_whose_run_failed_before_it_could_be_fetched_gets_another(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        waiting.link.making_s = 60
        broken = waiting.link.offer()
        poll = waiting.begin("a", wait_s=10)
        while waiting.link.write(waiting.link.registry.run, broken).state is not State.BUILDING:
            await asyncio.sleep(0.05)
        waiting.link.making_s = 0
        waiting.link.move(broken, State.ERROR)
        sound = waiting.link.offer()
        job = await poll
        assert job is not None
        assert job["run_id"] == sound

    play(scenario)


def test_a_controller_that_fails_makes_polls_wait_and_nothing_else(play, caplog) -> None:
    async def scenario(waiting: Waiting) -> None:
        link, sound = waiting.link, waiting.link.command
        tried = []

        async def failing(method: str, *args: Any) -> Any:
            tried.append(method)
            raise Conflict("The controller is not there.", code="controller_restarting")

        link.command = failing  # type: ignore[method-assign]
        link.offer()
        assert await waiting.claim("a", wait_s=1.0) is None
        assert tried == ["claim"]
        link.command = sound  # type: ignore[method-assign]
        assert await waiting.claim("a") is not None

    play(scenario)
    assert "could not be given out" in caplog.text


def test_an_offer_is_seen_though_the_first_look_at_it_failed(play, monkeypatch, caplog) -> None:
    take, failures = Views.take, ["database is locked"]

    def fails_once(self: Views) -> Any:
        if failures:
            raise sqlite3.OperationalError(failures.pop())
        return take(self)

    async def scenario(waiting: Waiting) -> None:
        poll = waiting.begin("a", wait_s=10)
        await asyncio.sleep(0.5)
        monkeypatch.setattr(Views, "take", fails_once)
        waiting.link.offer()
        assert await asyncio.wait_for(poll, 5) is not None

    play(scenario)
    assert "database is locked" in caplog.text


def test_a_job_that_cannot_be_read_keeps_no_other_agent_from_its_own(play, monkeypatch) -> None:
    read, broken = MirrorFolder.read_job, []

    def one_is_broken(self: MirrorFolder, attempt: int) -> Any:
        if self.path.name in broken:
            raise OSError(5, "Input/output error")
        return read(self, attempt)

    async def scenario(waiting: Waiting) -> None:
        monkeypatch.setattr(MirrorFolder, "read_job", one_is_broken)
        broken.append(waiting.link.offer())
        first = waiting.begin("a", wait_s=10)
        await asyncio.sleep(0.5)
        waiting.link.offer()
        assert await asyncio.wait_for(waiting.claim("b", wait_s=10), 5) is not None
        first.cancel()

    play(scenario)


def test_while_the_controller_comes_up_nothing_is_sent_to_it(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        waiting.link.phase = Phase.RESTARTING
        waiting.link.offer()
        poll = waiting.begin("a", wait_s=10)
        await asyncio.sleep(0.5)
        assert waiting.link.commands == []
        waiting.link.phase = Phase.READY
        assert await poll is not None

    play(scenario)


def test_a_server_that_stops_lets_nobody_wait(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        poll = waiting.begin("a", wait_s=20)
        await asyncio.sleep(0.3)
        waiting.link.phase = Phase.STOPPING
        with pytest.raises(Unavailable, match="stopping"):
            await asyncio.wait_for(poll, 2)
        with pytest.raises(Unavailable):
            await asyncio.wait_for(waiting.claim("b", wait_s=20), 2)

    play(scenario)


def test_those_who_wait_do_not_look_themselves(play, monkeypatch) -> None:
    looks = []
    take = Views.take

    def counted(self: Views) -> Any:
        looks.append(time.monotonic())
        return take(self)

    async def scenario(waiting: Waiting) -> None:
        monkeypatch.setattr(Views, "take", counted)
        polls = [waiting.begin(f"lease-{number}", wait_s=1.5) for number in range(200)]
        await asyncio.gather(*polls)
        assert len(looks) <= 2

    play(scenario)


def test_a_view_names_who_has_what(play) -> None:
    async def scenario(waiting: Waiting) -> None:
        run_id = await _offered_and_claimed(waiting)
        offered = waiting.link.offer("laptop")
        view = Views(waiting.context.reader, lambda each: waiting.link.folder(each).path).take()
        assert view.offered == {"laptop": (offered,)}
        assert view.held == {digest("a"): Claimed(run_id, 1, NAME)}

    play(scenario)


# --- a token that is replaced while its bearer waits ------------------------------------------------


class Registered(Waiting):
    """Polls that know the tokens of backends, and agents that bear one."""

    def __init__(self, config: ProjectConfig) -> None:
        super().__init__(config)
        self.token = self.link.token()
        tokens = Tokens(of_backends(config.model_training.backends, self.context.reader))
        self.polls = Polls(self.context, tokens=tokens)

    async def claim(self, lease: str, wait_s: float = 5.0, backend: str = NAME, gone: Any = None) -> Any:
        hung_up = asyncio.get_running_loop().create_future()
        token = digest(self.token)
        return await self.polls.claim(backend, digest(lease), AGENT, wait_s, hung_up, token_sha256=token)


@pytest.fixture
def registered(make_config: Callable[..., ProjectConfig]) -> Iterator[Registered]:
    waiting = Registered(make_config(backends=AGENT_BACKENDS, max_concurrent_runs=9))
    yield waiting
    waiting.link.close()


def test_a_poll_whose_token_is_replaced_is_refused_at_once(registered: Registered) -> None:
    async def scenario() -> None:
        poll = registered.begin("a", wait_s=20)
        await asyncio.sleep(0.3)
        registered.link.token()
        with pytest.raises(Rejected) as refused:
            await asyncio.wait_for(poll, 2)
        assert refused.value.status == 401

    asyncio.run(scenario())


def test_a_poll_whose_token_was_replaced_gets_no_run_that_is_offered_then(registered: Registered) -> None:
    async def scenario() -> None:
        old = registered.begin("a", wait_s=20)
        await asyncio.sleep(0.3)
        registered.token = registered.link.token()
        run_id = registered.link.offer()
        new = await asyncio.wait_for(registered.claim("b", wait_s=10), 5)
        assert new["run_id"] == run_id
        with pytest.raises(Rejected):
            await old

    asyncio.run(scenario())


def test_the_token_of_another_backend_that_is_replaced_disturbs_nobody(registered: Registered) -> None:
    async def scenario() -> None:
        poll = registered.begin("a", wait_s=10)
        await asyncio.sleep(0.3)
        registered.link.token("laptop")
        run_id = registered.link.offer()
        job = await asyncio.wait_for(poll, 5)
        assert job is not None
        assert job["run_id"] == run_id

    asyncio.run(scenario())


def test_a_token_that_was_replaced_lets_nobody_in_once_the_watcher_knows(registered: Registered) -> None:
    async def scenario() -> None:
        tokens, old = registered.polls._tokens, registered.token
        assert tokens is not None
        assert await tokens.whose(old) is not None
        registered.token = registered.link.token()
        assert await registered.claim("b", wait_s=0.5) is None
        assert await tokens.whose(old) is None

    asyncio.run(scenario())
