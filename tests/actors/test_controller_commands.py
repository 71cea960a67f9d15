"""The controller's own part in commands, without Ray: what it waits for, and what it carries through."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from controlled import LOCKED, controlled, finishing
from publishing import publish

from potato_ray.actors import controller as controllers
from potato_ray.actors.controller import RunController
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict
from potato_ray.registry import Registry, State, StoredPrediction
from potato_ray.registry.runs import Run
from potato_ray.writeback import WritebackSettings


def published(registry: Registry, n_predictions: int) -> Run:
    """A successful run whose predictions are all shown."""
    run_id = finishing(registry).run_id
    rows = (
        StoredPrediction(f"item-{number:05}", "sentiment", {"label": "positive"}, 0.9)
        for number in range(n_predictions)
    )
    registry.store_predictions(run_id, 1, rows)
    report = publish(registry, run_id, 1, WritebackSettings(("sentiment",)))
    return registry.transition(run_id, 1, State.SUCCESS, writeback=report.as_json())


def test_a_cancel_that_was_acknowledged_holds_for_a_run_that_is_taken_up_while_it_finishes(
    config: ProjectConfig,
) -> None:
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        run_id = finishing(registry, cancelled=True).run_id

    async def ended(controller: RunController) -> State:
        await controller.ready()
        while not (run := await controller.write(controller.registry.run, run_id)).ended:
            await asyncio.sleep(0.01)
        return run.state

    assert controlled(config, ended) is State.CANCELLED


def test_a_withdrawal_goes_on_behind_a_lock_and_lets_other_writes_in_between(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controllers, "WRITE_AGAIN_AFTER_S", 0.0)
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        run_id = published(registry, 2500).run_id
    order: list[str] = []
    step = Registry.withdraw_step

    def sometimes_locked(registry: Registry, run_id: str) -> int | None:
        order.append("chunk")
        if len(order) == 2:
            raise LOCKED
        return step(registry, run_id)

    monkeypatch.setattr(Registry, "withdraw_step", sometimes_locked)

    async def withdrawn(controller: RunController) -> int:
        await controller.ready()
        withdrawing = asyncio.create_task(controller.withdraw(run_id))
        while not order:
            await asyncio.sleep(0.001)
        await controller.write(order.append, "other")
        return await withdrawing

    assert controlled(config, withdrawn) == 2500
    assert "chunk" in order[order.index("other") :]


def test_what_is_shown_is_brought_up_to_date_behind_a_lock(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controllers, "WRITE_AGAIN_AFTER_S", 0.0)
    tries: list[Registry] = []
    step = Registry.replay_step

    def locked_at_first(registry: Registry, *args: Any) -> Any:
        tries.append(registry)
        if len(tries) == 1:
            raise LOCKED
        return step(registry, *args)

    monkeypatch.setattr(Registry, "replay_step", locked_at_first)

    async def replayed(controller: RunController) -> None:
        while len(tries) < 2:
            await asyncio.sleep(0.01)

    controlled(config, replayed)


@pytest.mark.parametrize("method", ["start", "cancel", "withdraw"])
def test_a_command_answers_what_kept_the_registry_from_opening(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    def locked(registry: Registry) -> Registry:
        raise LOCKED

    monkeypatch.setattr(Registry, "open", locked)

    async def refused(controller: RunController) -> str:
        with pytest.raises(Conflict) as refusal:
            await getattr(controller, method)("r-1")
        return refusal.value.code

    assert controlled(config, refused) == "registry_locked"
