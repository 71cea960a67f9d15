"""The adapter of a slurm backend keeps one login for all who ask, as long as it is used and a while after."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import pytest

from potato_ray.actors.slurm_adapter import MOST_LOGINS, REFUSED_FOR_S, SlurmAdapter
from potato_ray.ssh import Destination, SshFailed

BOX = Destination("login.example")
IDLE_S = 60.0


class FakeLogin:
    """A login without ssh."""

    def __init__(self, control_path: str) -> None:
        self.control_path = control_path
        self.is_alive = True
        self.is_used = False
        self.words: SshFailed | None = None
        self.closed = 0

    def dies(self, words: str) -> None:
        self.is_alive = False
        self.words = SshFailed(words)

    def lost(self, wait_s: float = 0.0) -> SshFailed | None:
        return self.words

    def close_if_unused(self) -> bool:
        if not self.is_used:
            self.close()
        return not self.is_used

    def close(self) -> None:
        self.is_alive = False
        self.closed += 1


class LoginNode:
    """Takes logins, unless it `refuses`; one waits until `may_answer`."""

    def __init__(self) -> None:
        self.logins: list[FakeLogin] = []
        self.tries = 0
        self.refuses: SshFailed | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()
        self.now = 0.0

    def open(self, destination: Destination) -> FakeLogin:
        assert destination is BOX
        self.tries += 1
        assert self.may_answer.wait(20)
        if self.refuses is not None:
            raise self.refuses
        self.logins.append(FakeLogin(f"/tmp/{len(self.logins)}/c"))
        return self.logins[-1]


def play(node: LoginNode, scene: Callable[[SlurmAdapter], Awaitable[None]]) -> None:
    """One scene with an adapter, to whom hours pass as `node.now` says."""

    async def played() -> None:
        adapter = SlurmAdapter(
            BOX,
            idle_s=IDLE_S,
            look_every_s=0.0,
            open_login=node.open,  # type: ignore[arg-type]
            clock=lambda: node.now,
        )
        try:
            await asyncio.wait_for(scene(adapter), 20)
        finally:
            await adapter.close()

    asyncio.run(played())


async def until(happened: Callable[[], bool]) -> None:
    while not happened():
        await asyncio.sleep(0)


async def looked_at(adapter: SlurmAdapter) -> None:
    """As the adapter does every few seconds."""
    async with adapter._changing:
        await adapter._look()


def test_those_who_ask_at_once_get_one_login() -> None:
    node = LoginNode()
    node.may_answer.clear()

    async def scene(adapter: SlurmAdapter) -> None:
        asking = [asyncio.create_task(adapter.login()) for _ in range(10)]
        await until(lambda: node.tries == 1)
        node.may_answer.set()
        assert await asyncio.gather(*asking) == ["/tmp/0/c"] * 10
        assert await adapter.login() == "/tmp/0/c"
        assert node.tries == 1

    play(node, scene)
    assert node.logins[0].closed == 1


def test_one_who_gives_up_waiting_takes_the_login_from_nobody() -> None:
    node = LoginNode()
    node.may_answer.clear()

    async def scene(adapter: SlurmAdapter) -> None:
        impatient, patient = (asyncio.create_task(adapter.login()) for _ in range(2))
        await until(lambda: node.tries == 1)
        impatient.cancel()
        node.may_answer.set()
        assert await patient == "/tmp/0/c"

    play(node, scene)


def test_a_refusal_is_told_to_all_and_for_a_moment_it_is_not_asked_again() -> None:
    node = LoginNode()
    node.refuses = SshFailed("ssh to login.example failed: Permission denied")

    async def scene(adapter: SlurmAdapter) -> None:
        told = await asyncio.gather(*(adapter.login() for _ in range(3)), return_exceptions=True)
        assert told == [node.refuses] * 3
        node.now = REFUSED_FOR_S - 0.1
        with pytest.raises(SshFailed, match="Permission denied"):
            await adapter.login()
        assert node.tries == 1
        node.refuses, node.now = None, REFUSED_FOR_S
        assert await adapter.login() == "/tmp/0/c"

    play(node, scene)


def test_who_found_it_full_gets_one_beside_it_and_who_did_not_the_oldest() -> None:
    node = LoginNode()

    async def scene(adapter: SlurmAdapter) -> None:
        assert await adapter.login() == "/tmp/0/c"
        beside = await asyncio.gather(*(adapter.login(["/tmp/0/c"]) for _ in range(3)))
        assert beside == ["/tmp/1/c"] * 3
        assert await adapter.login(["/tmp/0/c", "/tmp/1/c"]) == "/tmp/2/c"
        assert await adapter.login() == "/tmp/0/c"
        node.logins[1].dies("ssh to login.example failed: It no longer answers")
        assert await adapter.login(["/tmp/0/c"]) == "/tmp/2/c"
        assert await adapter.why_lost("/tmp/1/c") == node.logins[1].words

    play(node, scene)
    assert [login.closed for login in node.logins] == [1, 1, 1]


def test_those_made_beside_it_are_left_one_by_one_when_nobody_uses_them() -> None:
    node = LoginNode()

    async def scene(adapter: SlurmAdapter) -> None:
        await adapter.login()
        await adapter.login(["/tmp/0/c"])
        node.logins[0].is_used = True
        node.now = IDLE_S
        await looked_at(adapter)
        assert [login.closed for login in node.logins] == [0, 1]
        assert await adapter.login() == "/tmp/0/c"

    play(node, scene)


def test_no_more_logins_are_made_than_a_login_node_will_bear() -> None:
    node = LoginNode()

    async def scene(adapter: SlurmAdapter) -> None:
        full: list[str] = []
        for _ in range(MOST_LOGINS):
            full.append(await adapter.login(full))
        with pytest.raises(SshFailed, match="There are 32 logins") as failure:
            await adapter.login(full)
        assert "MaxSessions" in failure.value.next_step
        assert await adapter.login() == full[0]

    play(node, scene)


def test_a_login_that_was_lost_is_made_anew_and_its_words_are_kept() -> None:
    node = LoginNode()

    async def scene(adapter: SlurmAdapter) -> None:
        first = await adapter.login()
        assert await adapter.why_lost(first) is None
        node.logins[0].dies("ssh to login.example failed: It no longer answers")
        before = await adapter.why_lost(first)
        assert await adapter.login() == "/tmp/1/c"
        after = await adapter.why_lost(first)
        assert before is not None
        assert after is not None
        assert before.message == after.message == "ssh to login.example failed: It no longer answers"
        assert await adapter.why_lost("/tmp/another/c") is None
        assert node.logins[0].closed == 1

    play(node, scene)


def test_a_login_that_is_used_stays_and_ends_a_while_after_its_last_use() -> None:
    node = LoginNode()

    async def scene(adapter: SlurmAdapter) -> None:
        await adapter.login()
        [login] = node.logins
        login.is_used, node.now = True, 10 * IDLE_S
        await looked_at(adapter)
        login.is_used, node.now = False, 11 * IDLE_S - 0.1
        await looked_at(adapter)
        assert login.is_alive
        node.now = 11 * IDLE_S
        await looked_at(adapter)
        assert not login.is_alive
        assert await adapter.login() == "/tmp/1/c"

    play(node, scene)


def test_a_login_that_is_joined_at_the_last_moment_stays() -> None:
    node = LoginNode()

    async def scene(adapter: SlurmAdapter) -> None:
        await adapter.login()
        [login] = node.logins
        login.close_if_unused = lambda: False  # type: ignore[method-assign]
        node.now = IDLE_S
        await looked_at(adapter)
        assert await adapter.login() == "/tmp/0/c"

    play(node, scene)


def test_it_looks_by_itself() -> None:
    node = LoginNode()

    async def scene(adapter: SlurmAdapter) -> None:
        await adapter.login()
        node.now = IDLE_S
        await until(lambda: node.logins[0].closed == 1)

    play(node, scene)
