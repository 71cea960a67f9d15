"""Starts on their way into the queue and out of it."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest

from potato_ray.actors.admission import Admission
from potato_ray.actors.controller import RunController
from potato_ray.backends.base import Placement, Refusal
from potato_ray.config import ProjectConfig, load
from potato_ray.errors import Conflict, StartRefused
from potato_ray.registry import Registry, Run, State
from potato_ray.starting import StartPlan, StartRequest

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
WANTED = StartRequest(trainer="sklearn-text", schemas=("sentiment",), idempotency_key="once")


class NoAgents:
    """A desk where nothing is offered."""

    def serves(self, backend: str) -> bool:
        return False

    async def look_after_offers(self) -> bool:
        return False


@dataclass
class Controller:
    """What admission needs of the controller."""

    config: ProjectConfig
    registry: Registry
    places: list[Placement | Refusal] = field(default_factory=list)
    begun: list[str] = field(default_factory=list)
    stopping: bool = False
    holding: bool = False
    desk: NoAgents = field(default_factory=NoAgents)
    holds_while_placing: bool = False
    name: str = "local"

    @property
    def slots(self) -> int:
        return self.config.model_training.max_concurrent_runs

    @property
    def has_free_slot(self) -> bool:
        return len(self.begun) < self.slots

    def backend(self, name: str) -> Controller:
        """The places that it has, one answer after the other."""
        return self

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        self.holding = self.holds_while_placing
        return self.places.pop(0)

    def wake(self) -> None: ...

    def follow(self, run: Run, placement: Placement) -> None:
        self.begun.append(run.run_id)

    async def write(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    shutil.copytree(PROJECT, tmp_path / "p")
    config = load(tmp_path / "p" / "config.yaml")
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        yield Controller(config, registry)


def admission(controller: Controller) -> Admission:
    return Admission(cast(RunController, controller))


def enqueue(controller: Controller, request: StartRequest = WANTED) -> Any:
    return asyncio.run(admission(controller).enqueue(request))


def test_a_repeat_answers_its_run_though_its_scheme_is_gone_since(controller: Controller) -> None:
    first = enqueue(controller)
    controller.config = controller.config.model_copy(update={"annotation_schemes": []})
    assert enqueue(controller).run_id == first.run_id
    with pytest.raises(StartRefused, match="no annotation scheme"):
        enqueue(controller, StartRequest(trainer="sklearn-text", schemas=("sentiment",), idempotency_key="2"))


def test_a_repeat_answers_its_run_when_the_run_has_ended(controller: Controller) -> None:
    first = enqueue(controller)
    controller.registry.request_cancel(first.run_id)
    again = enqueue(controller)
    assert (again.run_id, again.state, again.position) == (first.run_id, State.CANCELLED, 0)


def test_a_key_that_stands_for_another_start_is_refused_and_makes_nothing(controller: Controller) -> None:
    enqueue(controller)
    other = replace(WANTED, params={"min_instances": 6})
    with pytest.raises(StartRefused) as refused:
        enqueue(controller, other)
    assert refused.value.code == "idempotency_key_reused"
    assert len(controller.registry.queued()) == 1


def test_starts_without_a_key_are_runs_of_their_own(controller: Controller) -> None:
    request = StartRequest(trainer="sklearn-text", schemas=("sentiment",))
    assert enqueue(controller, request).run_id != enqueue(controller, request).run_id


def test_the_oldest_run_gets_the_gpu_that_is_given_back_while_the_queue_is_looked_through(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(StartPlan, "uses_gpu", True)
    first, _ = (enqueue(controller, replace(WANTED, idempotency_key=None)) for _ in range(2))
    given_back = Placement("local", "cuda", ("GPU-1",), (0,))
    controller.places = [Refusal("no_gpu_free", "Held by another run.", "Wait.", wait=True), given_back]
    assert asyncio.run(admission(controller).admit())
    assert controller.begun == []
    assert not asyncio.run(admission(controller).admit())
    assert controller.begun == [first.run_id]


def test_a_run_for_which_a_place_is_looked_for_does_not_begin_once_the_queue_is_held(
    controller: Controller,
) -> None:
    enqueue(controller)
    controller.places = [Placement("local", "cpu")]
    controller.holds_while_placing = True
    asyncio.run(admission(controller).admit())
    assert controller.begun == []
    assert len(controller.registry.queued()) == 1


def test_a_run_behind_one_that_waits_begins_though_the_step_line_met_a_lock(
    controller: Controller, monkeypatch: pytest.MonkeyPatch
) -> None:
    def locked(*_: Any) -> None:
        raise Conflict("project.sqlite is locked.", code="registry_locked")

    monkeypatch.setattr(Registry, "note_progress", locked)
    _, second = (enqueue(controller, replace(WANTED, idempotency_key=None)) for _ in range(2))
    controller.places = [
        Refusal("no_gpu_free", "Held by another run.", "Wait.", wait=True),
        Placement("local", "cpu"),
    ]
    asyncio.run(admission(controller).admit())
    assert controller.begun == [second.run_id]
