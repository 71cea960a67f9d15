"""A run whose agent was lost before it trained goes to another one, with the bundle that was built."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from controlled import controlled, offered

from potato_ray.actors import building as buildings
from potato_ray.actors.building import Building
from potato_ray.actors.controller import RunController
from potato_ray.actors.way import MAX_LOST_AGENTS, RunWay
from potato_ray.agent_tokens import digest_of
from potato_ray.backends.base import Outcome
from potato_ray.bundle.builder import build
from potato_ray.bundle.report import BuildReport
from potato_ray.config.models import ProjectConfig
from potato_ray.registry import Run, State

AGENT = {"id": "a1", "host": "workstation"}
LOST = Outcome("unstarted", "heartbeat_lost", "No word from the agent.", "", "Look at the machine.")


@pytest.fixture
def outcomes(monkeypatch: pytest.MonkeyPatch) -> list[Outcome]:
    """What becomes of the attempts, in their order; without one an attempt goes on."""
    left: list[Outcome] = []

    async def built(way: RunWay) -> None:
        await way._change(State.RUNNING, bundle_digest="d")

    async def executed(way: RunWay) -> Outcome | None:
        if left:
            return left.pop(0)
        await way._let_go.wait()
        return None

    monkeypatch.setattr(RunWay, "_build", built)
    monkeypatch.setattr(RunWay, "_execute", executed)
    return left


async def claimed(controller: RunController, lease: str) -> dict[str, Any]:
    while (got := await controller.claim("ws", digest_of(lease), AGENT)) is None:
        await asyncio.sleep(0.005)
    return got


async def settled(controller: RunController, run: Run) -> Run:
    """The run once nobody is at work on it."""
    while controller.followed():
        await asyncio.sleep(0.005)
    return await controller.write(controller.registry.run, run.run_id)


def test_a_run_whose_agent_was_lost_goes_to_the_next_one(
    agent_config: ProjectConfig, outcomes: list[Outcome]
) -> None:
    async def scenario(controller: RunController) -> None:
        outcomes.append(LOST)
        run = await offered(controller)
        await claimed(controller, "first")
        assert (await settled(controller, run)).state == State.OFFERED
        assert not (controller.run_folder(run.run_id) / "claim.json").exists()
        assert await claimed(controller, "second") == {"run_id": run.run_id, "attempt": 2}

    controlled(agent_config, scenario)


def test_the_log_says_why_a_run_is_on_offer_again(
    agent_config: ProjectConfig, outcomes: list[Outcome]
) -> None:
    async def scenario(controller: RunController) -> str:
        outcomes.append(LOST)
        run = await offered(controller)
        await claimed(controller, "first")
        await settled(controller, run)
        return str(controller.reader.newest_events(run.run_id, ["log"], 1)[0]["message"])

    word = "No word from the agent. Nothing was heard of a worker there: the run is on offer again."
    assert controlled(agent_config, scenario) == word


def test_a_run_that_loses_every_agent_fails_some_time(
    agent_config: ProjectConfig, outcomes: list[Outcome]
) -> None:
    async def scenario(controller: RunController) -> Run:
        outcomes.extend([LOST] * MAX_LOST_AGENTS)
        run = await offered(controller)
        for attempt in range(MAX_LOST_AGENTS):
            await claimed(controller, f"lease {attempt}")
        return await settled(controller, run)

    run = controlled(agent_config, scenario)
    assert (run.state, run.error_code, run.attempt) == (State.ERROR, "heartbeat_lost", MAX_LOST_AGENTS)


def test_builds_that_were_done_again_are_no_lost_agents(
    agent_config: ProjectConfig, outcomes: list[Outcome]
) -> None:
    async def scenario(controller: RunController) -> Run:
        run = await offered(controller)
        for _ in range(MAX_LOST_AGENTS):
            begun = await controller.write(controller.registry.begin, run.run_id, None, 9)
            await controller.desk._take_back(begun)
            while (await controller.write(controller.registry.run, run.run_id)).state != State.OFFERED:
                await asyncio.sleep(0.005)
        outcomes.append(LOST)
        await claimed(controller, "first")
        return await settled(controller, run)

    run = controlled(agent_config, scenario)
    assert (run.state, run.attempt) == (State.OFFERED, MAX_LOST_AGENTS + 1)


def test_lost_agents_are_counted_over_a_restart(agent_config: ProjectConfig, outcomes: list[Outcome]) -> None:
    async def loses_one(controller: RunController) -> Run:
        await controller.ready()
        outcomes.append(LOST)
        if not (waiting := controller.reader.offered("ws")):
            waiting = [await offered(controller)]
        await claimed(controller, "lease")
        return await settled(controller, waiting[0])

    ends = [controlled(agent_config, loses_one).state for _ in range(MAX_LOST_AGENTS)]
    assert ends == [State.OFFERED] * (MAX_LOST_AGENTS - 1) + [State.ERROR]


def test_a_run_that_was_cancelled_meanwhile_is_offered_to_nobody(
    agent_config: ProjectConfig, outcomes: list[Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def cancelled(way: RunWay) -> Outcome:
        await way.controller.cancel(way.run.run_id)
        return LOST

    monkeypatch.setattr(RunWay, "_execute", cancelled)

    async def scenario(controller: RunController) -> Run:
        run = await offered(controller)
        await claimed(controller, "first")
        run = await settled(controller, run)
        assert (controller.run_folder(run.run_id) / "run.log").exists()
        return run

    assert controlled(agent_config, scenario).state == State.CANCELLED


def test_a_run_that_is_on_offer_again_is_so_for_the_next_controller(
    agent_config: ProjectConfig, outcomes: list[Outcome]
) -> None:
    async def loses(controller: RunController) -> Run:
        outcomes.append(LOST)
        run = await offered(controller)
        await claimed(controller, "first")
        return await settled(controller, run)

    async def takes_up(controller: RunController) -> dict[str, Any]:
        await controller.ready()
        return await claimed(controller, "second")

    run = controlled(agent_config, loses)
    assert controlled(agent_config, takes_up) == {"run_id": run.run_id, "attempt": 2}


# --- the bundle -----------------------------------------------------------------------------------


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The folders in which a bundle was built, without Ray."""
    folders: list[str] = []

    async def answer(arguments: tuple[Any, ...]) -> BuildReport:
        _, _, _, request, folder = arguments
        folders.append(folder)
        return await asyncio.to_thread(build, request, Path(folder) / "bundle")

    context = SimpleNamespace(get_runtime_context=lambda: SimpleNamespace(current_actor=None))
    monkeypatch.setattr(buildings, "ray", context)
    monkeypatch.setattr(buildings.tasks, "build_bundle", SimpleNamespace(remote=lambda *each: each))
    monkeypatch.setattr(buildings, "answer_of", answer)
    return folders


async def built(controller: RunController, run: Run) -> BuildReport:
    return await Building(controller, run, None).build(asyncio.Event())


async def begun_again(controller: RunController, run: Run, digest: str) -> Run:
    """The run in its next attempt, after its worker did not start."""
    registry = controller.registry
    await controller.write(registry.transition, run.run_id, run.attempt, State.RUNNING, bundle_digest=digest)
    await controller.write(registry.transition, run.run_id, run.attempt, State.OFFERED)
    begun = await controller.write(registry.begin, run.run_id, None, 9)
    assert begun is not None
    return begun


@pytest.fixture
def ways_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk(way: RunWay) -> None:
        await way._let_go.wait()

    monkeypatch.setattr(RunWay, "walk", walk)


@pytest.mark.usefixtures("ways_that_wait")
def test_the_next_attempt_has_the_bundle_that_was_built(
    agent_config: ProjectConfig, builds: list[str]
) -> None:
    async def scenario(controller: RunController) -> None:
        run = await offered(controller)
        run = await controller.write(controller.registry.begin, run.run_id, None, 9)
        first = await built(controller, run)
        kept = await built(controller, await begun_again(controller, run, first.manifest["digest"]))
        assert len(builds) == 1
        assert (kept.manifest, kept.warnings, kept.splits) == (first.manifest, first.warnings, first.splits)
        spec = (controller.run_folder(run.run_id) / "spec.json").read_text()
        assert '"attempt": 2' in spec

    controlled(agent_config, scenario)


@pytest.mark.usefixtures("ways_that_wait")
def test_a_bundle_that_is_not_the_one_that_was_built_is_built_again(
    agent_config: ProjectConfig, builds: list[str]
) -> None:
    async def scenario(controller: RunController) -> None:
        run = await offered(controller)
        run = await controller.write(controller.registry.begin, run.run_id, None, 9)
        first = await built(controller, run)
        run = await begun_again(controller, run, first.manifest["digest"])
        os.unlink(controller.run_folder(run.run_id) / "bundle" / "manifest.json")
        assert (await built(controller, run)).manifest["digest"] == first.manifest["digest"]
        assert len(builds) == 2

    controlled(agent_config, scenario)
