"""The step line of a run that an agent works for: what the agent says, and what its worker does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from controlled import controlled

from potato_ray.actors.controller import RunController
from potato_ray.actors.way import RunWay
from potato_ray.config.models import ProjectConfig
from potato_ray.registry import NewRun, State

FITTING = {"v": 1, "event": "status", "t": 1.0, "phase": "fitting", "step": "epoch 3 of 9"}


@pytest.fixture(autouse=True)
def ways_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    async def walk(way: RunWay) -> None:
        await way._let_go.wait()

    monkeypatch.setattr(RunWay, "walk", walk)


async def at_work(controller: RunController) -> str:
    """A run whose worker has been started."""
    await controller.ready()
    await controller.hold_queue()
    registry = controller.registry
    new = NewRun("sklearn-text", ("sentiment",), ("nominal",))
    made = await controller.write(
        lambda: registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=9)
    )
    await controller.write(registry.begin, made.run_id, None, 9)
    controller.follow(await controller.write(registry.transition, made.run_id, 1, State.RUNNING), None)
    return str(made.run_id)


def test_the_workers_step_comes_back_with_its_agent(config: ProjectConfig) -> None:
    async def scenario(controller: RunController) -> list[str]:
        run_id = await at_work(controller)
        await controller.record_events(run_id, 1, 0, [FITTING], [])
        notes: list[list[Mapping[str, Any]]] = [
            [{"kind": "late", "step": "no word from the agent on ws for 30 s; lost after 120 s"}],
            [{"kind": "heard", "message": "heard again"}],
        ]
        steps = []
        for each in notes:
            await controller.record_events(run_id, 1, 1, [], each)
            steps.append((await controller.write(controller.registry.run, run_id)).step)
        return steps

    late = "no word from the agent on ws for 30 s; lost after 120 s"
    assert controlled(config, scenario) == [late, "epoch 3 of 9"]


@pytest.mark.parametrize(("first_seq", "shown"), [(0, "epoch 3 of 9"), (1, "starting the worker")])
def test_what_is_said_with_the_workers_first_words_does_not_hide_them(
    config: ProjectConfig, first_seq: int, shown: str
) -> None:
    async def scenario(controller: RunController) -> str:
        run_id = await at_work(controller)
        await controller.record_events(run_id, 1, 0, [FITTING] * first_seq, [])
        note = {"kind": "step", "step": "starting the worker"}
        await controller.record_events(run_id, 1, first_seq, [FITTING], [note])
        return str((await controller.write(controller.registry.run, run_id)).step)

    assert controlled(config, scenario) == shown
