"""Taking up what an earlier controller left of runs for agents: with a server, without one, and changed."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controlled import controlled, offered

from potato_ray.actors.controller import RunController
from potato_ray.actors.way import RunWay
from potato_ray.agent_tokens import digest_of
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry import Run, State
from potato_ray.starting import StartRequest

AGENT = {"id": "a1", "host": "workstation"}


@pytest.fixture(autouse=True)
def ways_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk(way: RunWay) -> None:
        await way._let_go.wait()

    monkeypatch.setattr(RunWay, "walk", walk)


async def at_an_agent(controller: RunController) -> Run:
    """A run that an agent has in hand."""
    run = await offered(controller)
    assert await controller.claim("ws", digest_of("lease"), AGENT)
    begun: Run = await controller.write(controller.registry.transition, run.run_id, 1, State.RUNNING)
    return begun


async def found(controller: RunController, run: Run) -> Run:
    """The run once the controller has taken up what there was."""
    await controller.ready()
    again: Run = await controller.write(controller.registry.run, run.run_id)
    return again


def after(config: ProjectConfig, run: Run, *, hears_agents: bool = True) -> tuple[State, list[str]]:
    """The state of a run at the next controller, and the runs that it follows."""

    async def scenario(controller: RunController) -> tuple[State, list[str]]:
        state = (await found(controller, run)).state
        return state, [each.run_id for each in controller.followed()]

    answer: tuple[State, list[str]] = controlled(config, scenario, hears_agents=hears_agents)
    return answer


def test_a_server_takes_up_a_run_that_an_agent_has_in_hand(agent_config: ProjectConfig) -> None:
    run = controlled(agent_config, at_an_agent)
    assert after(agent_config, run) == (State.RUNNING, [run.run_id])


def test_without_a_server_a_run_that_an_agent_has_in_hand_is_left_alone(agent_config: ProjectConfig) -> None:
    run = controlled(agent_config, at_an_agent)
    assert after(agent_config, run, hears_agents=False) == (State.RUNNING, [])


def test_without_a_server_no_offer_expires_and_nothing_is_offered(agent_config: ProjectConfig) -> None:
    run = controlled(agent_config, offered)

    async def scenario(controller: RunController) -> list[State]:
        await controller.ready()
        controller.desk._clock = lambda: 1e9
        request = StartRequest(trainer="sklearn-text", schemas=("sentiment",), backend="ws")
        said = await controller.start(request)
        assert await controller.admission.admit() is False
        return [(await found(controller, each)).state for each in (run, await _row(controller, said))]

    assert controlled(agent_config, scenario, hears_agents=False) == [State.OFFERED, State.QUEUED]


async def _row(controller: RunController, said: dict[str, Any]) -> Run:
    row: Run = await controller.write(controller.registry.run, said["run_id"])
    return row


def test_without_a_server_a_run_at_an_agent_holds_up_no_run_here(agent_config: ProjectConfig) -> None:
    controlled(agent_config, at_an_agent)

    async def scenario(controller: RunController) -> dict[str, Any]:
        await controller.ready()
        said = await controller.start(StartRequest("sklearn-text", ("sentiment",), queue=False))
        while (await _row(controller, said)).state == State.QUEUED:
            await asyncio.sleep(0.005)
        return said

    assert controlled(agent_config, scenario, hears_agents=False)["queued"] is False


@pytest.mark.parametrize(
    ("backends", "state", "code"),
    [
        ("{other: {type: agent}}", State.ERROR, "invalid_when_dequeued"),
        ("{ws: {type: agent}}", State.OFFERED, ""),
    ],
    ids=["removed", "as it was"],
)
def test_an_offer_of_a_backend_that_is_gone_is_refused_at_the_start(
    agent_config: ProjectConfig, backends: str, state: State, code: str
) -> None:
    run = controlled(agent_config, offered)
    again: Run = controlled(changed(agent_config, backends), lambda controller: found(controller, run))
    assert (again.state, again.error_code) == (state, code)


def test_an_offer_of_a_backend_of_another_type_goes_back_into_the_queue(
    agent_config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = controlled(agent_config, offered)

    async def nothing(controller: RunController) -> bool:
        return False

    monkeypatch.setattr("potato_ray.actors.admission.Admission.admit", nothing)
    config = changed(agent_config, "{ws: {type: ssh, host: gpu.example.org}}")
    assert after(config, run) == (State.QUEUED, [])


def changed(config: ProjectConfig, backends: str) -> ProjectConfig:
    """The project with other backends."""
    lines = config.path.read_text().splitlines(keepends=True)
    changed = [f"  backends: {backends}\n" if each.startswith("  backends:") else each for each in lines]
    config.path.write_text("".join(changed))
    return load(config.path)


def test_a_run_that_was_taken_from_a_lost_agent_is_on_offer_again_at_once(
    agent_config: ProjectConfig,
) -> None:
    run = controlled(agent_config, at_an_agent)
    MirrorFolder(agent_config.training_dir / "runs" / run.run_id).clear()
    assert after(agent_config, run) == (State.OFFERED, [])
