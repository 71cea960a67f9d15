"""Agents that were heard of are told to the controller together, and new ones soon."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_jobs import AGENT

from potato_ray.errors import Conflict
from potato_ray.server.agent_sightings import LEAVES_AFTER_S, TELL_EVERY_S, Sightings
from potato_ray.server.context import Phase

TURNS = 30


class Controller:
    """Keeps what it is told; fails once while `fails` is set."""

    def __init__(self) -> None:
        self.phase = Phase.READY
        self.trouble = None
        self.told: list[tuple[str, list[dict[str, Any]]]] = []
        self.fails = False

    async def command(self, method: str, *args: Any) -> Any:
        assert method == "agents_seen"
        if self.fails:
            self.fails = False
            raise Conflict("locked", code="registry_locked")
        self.told.append(args)


class Scene:
    def __init__(self) -> None:
        self.now = 1000.0
        self.controller = Controller()
        self.sightings = Sightings(self.controller, clock=lambda: self.now, sleep=lambda _: asyncio.sleep(0))

    async def settle(self) -> None:
        """Several looks. All of it is on one loop, so turns of the loop count, and no time."""
        for _ in range(TURNS):
            await asyncio.sleep(0)

    def hosts(self) -> list[list[str]]:
        return [[each["host"] for each in agents] for _, agents in self.controller.told]


def agent(number: int = 0) -> dict[str, Any]:
    return {**AGENT, "id": f"{number:016x}", "host": f"ws{number}"}


def test_an_agent_is_told_of_with_all_that_it_said() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.sightings.note("workstation", agent(), "run-1")
        await scene.settle()
        ((backend, (said,)),) = scene.controller.told
        assert backend == "workstation"
        assert said == {
            "agent_id": "0" * 16,
            "host": "ws0",
            "python": "3.8.18",
            "version": "0.1.0",
            "workdir": "",
            "executable": "",
            "gpus": [],
            "lacks": [],
            "run_id": "run-1",
            "last_seen": 1000.0,
            "has_left": False,
        }

    asyncio.run(scenario())


def test_many_agents_are_one_command_and_the_same_news_wait() -> None:
    async def scenario() -> None:
        scene = Scene()
        for _ in range(3):
            for number in range(100):
                scene.sightings.note("workstation", agent(number))
            await scene.settle()
        assert [len(hosts) for hosts in scene.hosts()] == [100]
        scene.now += TELL_EVERY_S
        await scene.settle()
        assert [len(hosts) for hosts in scene.hosts()] == [100, 100]

    asyncio.run(scenario())


def test_an_agent_with_another_job_in_hand_is_told_of_soon() -> None:
    async def scenario() -> None:
        scene = Scene()
        for run_id in ("", "run-1", "run-1", ""):
            scene.sightings.note("workstation", agent(), run_id)
            await scene.settle()
        assert [agents[0]["run_id"] for _, agents in scene.controller.told] == ["", "run-1", ""]

    asyncio.run(scenario())


def test_one_that_hangs_up_and_does_not_come_back_has_left() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.sightings.note("workstation", agent())
        await scene.settle()
        scene.sightings.may_leave("workstation", agent())
        await scene.settle()
        assert len(scene.controller.told) == 1
        scene.now += LEAVES_AFTER_S
        await scene.settle()
        ((_, (said,)),) = scene.controller.told[1:]
        assert (said["has_left"], said["last_seen"]) == (True, 1000.0)

    asyncio.run(scenario())


def test_one_that_asks_again_soon_has_not_left() -> None:
    async def scenario() -> None:
        scene = Scene()
        for happening in (scene.sightings.note, scene.sightings.may_leave, scene.sightings.note):
            happening("workstation", agent())
        await scene.settle()
        scene.now += TELL_EVERY_S
        await scene.settle()
        assert [agents[0]["has_left"] for _, agents in scene.controller.told] == [False]

    asyncio.run(scenario())


def test_what_could_not_be_told_is_told_again(caplog) -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.controller.fails = True
        scene.sightings.note("workstation", agent())
        await scene.settle()
        assert scene.hosts() == [["ws0"]]

    asyncio.run(scenario())
    assert "could not be recorded" in caplog.text


def test_nothing_is_told_to_a_controller_that_is_not_ready() -> None:
    async def scenario() -> None:
        scene = Scene()
        scene.controller.phase = Phase.RESTARTING
        scene.sightings.note("workstation", agent())
        await scene.settle()
        assert scene.controller.told == []
        scene.controller.phase = Phase.READY
        await scene.settle()
        assert scene.hosts() == [["ws0"]]
        scene.sightings.stop()

    asyncio.run(scenario())
