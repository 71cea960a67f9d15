"""How the controller finishes runs, without Ray: stored beside scored, and dropped again after a failure."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest
from controlled import LOCKED, controlled, finishing

from potato_ray.actors import controller as controllers
from potato_ray.actors import finishing as finishings
from potato_ray.actors.controller import RunController
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict, RunFailed
from potato_ray.job.folder import JobFolder
from potato_ray.registry import Registry, RegistryReader, Reservation, Run, State
from potato_ray.registry.pruning import Pruning

SCORED = {"scores": {"headline": None}, "warnings": []}


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(controllers, "WRITE_AGAIN_AFTER_S", 0.001)


def scoring(monkeypatch: pytest.MonkeyPatch, answer: Callable[[], Awaitable[Any]]) -> None:
    """Score with `answer` instead of a Ray task."""
    monkeypatch.setattr(finishings.tasks, "finish_run", SimpleNamespace(remote=lambda *_: answer))
    monkeypatch.setattr(finishings, "answer_of", lambda reference: reference())


async def scored() -> dict[str, Any]:
    return SCORED


def trained(config: ProjectConfig, n_predictions: int, more: str = "") -> str:
    """A run whose worker has left so many predictions, and `more` behind them."""
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        run_id = finishing(registry).run_id
    job = JobFolder(config.training_dir / "runs" / run_id)
    job.artifacts.mkdir(parents=True)
    lines = (
        json.dumps({"instance_id": f"i{n:05}", "schema_name": "sentiment", "payload": {"label": "positive"}})
        for n in range(n_predictions)
    )
    job.predictions.write_text("".join(f"{line}\n" for line in lines) + more)
    return run_id


def ended(config: ProjectConfig, run_id: str) -> Run:
    """The run once a controller has taken it up, and brought it to its end."""

    async def scenario(controller: RunController) -> Run:
        await controller.ready()
        while controller._ways:
            await asyncio.sleep(0.005)
        return await controller.write(controller.registry.run, run_id)

    run: Run = controlled(config, scenario)
    return run


def stored(config: ProjectConfig, run_id: str) -> int:
    return len(list(RegistryReader(config.registry_path).predictions(run_id)))


def test_every_line_is_stored_though_the_registry_was_locked_in_between(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring(monkeypatch, scored)
    firsts: list[int] = []
    store = Registry.store_lines

    def sometimes_locked(registry: Registry, run_id: str, attempt: int, lines: bytes, first: int) -> int:
        firsts.append(first)
        if len(firsts) == 2:
            raise LOCKED
        return store(registry, run_id, attempt, lines, first)

    monkeypatch.setattr(Registry, "store_lines", sometimes_locked)
    run_id = trained(config, 2500)
    assert ended(config, run_id).state is State.SUCCESS
    assert (stored(config, run_id), firsts) == (2500, [1, 1001, 1001, 2001])


def test_a_torn_line_fails_the_run_and_nothing_of_it_is_kept(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring(monkeypatch, scored)
    run_id = trained(config, 1500, more="{")
    run = ended(config, run_id)
    assert (run.state, run.error_code) == (State.ERROR, "no_result")
    assert run.error.startswith("Line 1501 of predictions.jsonl")
    assert stored(config, run_id) == 0


def test_predictions_that_cannot_be_read_are_told_as_such(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring(monkeypatch, scored)
    run_id = trained(config, 1)
    JobFolder(config.training_dir / "runs" / run_id).predictions.unlink()
    run = ended(config, run_id)
    assert (run.error, run.error_code) == ("The run's predictions cannot be read.", "no_result")


def test_a_run_that_cannot_be_scored_keeps_nothing_though_the_registry_is_locked_at_its_end(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = trained(config, 2500)

    async def fails_late() -> Any:
        while stored(config, run_id) < 1000:
            await asyncio.sleep(0.001)
        raise RunFailed("No score.", next_step="Look.")

    scoring(monkeypatch, fails_late)
    drops: list[str] = []
    drop = Registry.withdraw_step

    def locked_at_first(registry: Registry, run_id: str) -> int | None:
        drops.append(run_id)
        if len(drops) == 1:
            raise LOCKED
        return drop(registry, run_id)

    monkeypatch.setattr(Registry, "withdraw_step", locked_at_first)
    run = ended(config, run_id)
    assert (run.state, run.error) == (State.ERROR, "No score.")
    assert stored(config, run_id) == 0
    assert (config.training_dir / "runs" / run_id / "run.log").exists()


def test_old_runs_that_cannot_be_pruned_keep_no_gpu(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    scoring(monkeypatch, scored)
    run_id = trained(config, 1)
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        assert registry.reserve(run_id, 1, Reservation(backend="local", gpu_uuids=("GPU-1",)))

    def locked(pruning: Pruning) -> bool:
        raise LOCKED

    monkeypatch.setattr(Pruning, "step", locked)

    async def released(controller: RunController) -> bool:
        await controller.ready()
        while await controller.write(controller.registry.reservations):
            await asyncio.sleep(0.005)
        return True

    assert controlled(config, released)


def test_of_many_step_lines_the_newest_is_written_and_nothing_waits_behind_the_others(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[int] = []
    note = Registry.note_progress

    def slowly(
        registry: Registry, run_id: str, attempt: int, step: str, current: float, total: float
    ) -> None:
        written.append(int(current))
        note(registry, run_id, attempt, step, current, total)

    monkeypatch.setattr(Registry, "note_progress", slowly)
    run_id = trained(config, 0)
    held = asyncio.Event()

    async def waits() -> Any:
        await held.wait()
        return SCORED

    scoring(monkeypatch, waits)

    async def scenario(controller: RunController) -> None:
        await controller.ready()
        notes = (controller.note_progress(run_id, 1, "reading", number, 20) for number in range(20))
        await asyncio.gather(*notes)
        held.set()
        while controller._ways:
            await asyncio.sleep(0.005)

    controlled(config, scenario)
    assert written == [0, 19]


def test_the_last_step_line_is_written_though_one_before_it_met_a_lock(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[int] = []

    def locked_at_first(registry: Registry, run_id: str, attempt: int, step: str, *numbers: float) -> None:
        tried.append(int(numbers[0]))
        if len(tried) == 1:
            raise LOCKED

    monkeypatch.setattr(Registry, "note_progress", locked_at_first)
    run_id = trained(config, 0)

    async def scenario(controller: RunController) -> None:
        await controller.ready()
        notes = (controller.note_progress(run_id, 1, "reading", number, 20) for number in range(21))
        await asyncio.gather(*notes)
        for task in [*controller._tasks]:  # the scoring has no end of its own
            task.cancel()

    scoring(monkeypatch, asyncio.Event().wait)
    controlled(config, scenario)
    assert tried == [0, 20]


def test_what_a_failed_run_has_stored_goes_with_the_next_controller_when_this_one_could_not_drop_it(
    config: ProjectConfig,
) -> None:
    run_id = trained(config, 0)
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        row = {"instance_id": "a", "schema_name": "sentiment", "payload": {"label": "positive"}}
        registry.store_predictions(run_id, 1, [row])
        registry.transition(run_id, 1, State.ERROR)

    async def scenario(controller: RunController) -> None:
        await controller.ready()
        while stored(config, run_id):
            await asyncio.sleep(0.005)

    controlled(config, scenario)


@pytest.mark.parametrize("restarted", [True, False])
def test_a_controller_that_ray_has_started_again_waits_for_a_locked_registry(
    config: ProjectConfig, monkeypatch: pytest.MonkeyPatch, restarted: bool
) -> None:
    monkeypatch.setattr(controllers, "_is_restarted", lambda: restarted)
    opened: list[Registry] = []
    really_open = Registry.open

    def locked_at_first(registry: Registry) -> Registry:
        opened.append(registry)
        if len(opened) == 1:
            raise LOCKED
        return really_open(registry)

    monkeypatch.setattr(Registry, "open", locked_at_first)

    async def scenario(controller: RunController) -> str:
        try:
            return str((await controller.ready())["project"])
        except Conflict as refused:
            return refused.code

    expected = config.annotation_task_name if restarted else "registry_locked"
    assert controlled(config, scenario) == expected


def test_a_controller_that_is_stopped_at_once_leaves_no_registry_open(config: ProjectConfig) -> None:
    async def stopped() -> RunController:
        controller = RunController(config, keep_spare=False)
        tasks = set(controller._tasks)
        await controller.stop()
        await asyncio.wait(tasks, timeout=10.0)
        return controller

    assert asyncio.run(stopped()).registry._opened is None


@pytest.mark.parametrize(("backend", "alone_s"), [("ws", 300.0), ("local", None), ("removed-since", None)])
def test_a_gpu_is_held_for_as_long_as_a_worker_goes_on_alone_on_its_backend(
    agent_config: ProjectConfig, backend: str, alone_s: float | None
) -> None:
    async def scenario(controller: RunController) -> float:
        return controller._held_at_most_s(backend)

    training = agent_config.model_training
    held_s = controlled(agent_config, scenario)
    assert held_s == (alone_s or training.survive_s) + training.grace_seconds + 10.0
