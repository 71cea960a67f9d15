"""Starts on their way into the queue: a repeat is answered from what was made, whatever changed since."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from potato_ray.actors.admission import Admission
from potato_ray.config import ProjectConfig, load
from potato_ray.errors import StartRefused
from potato_ray.registry import Registry, State
from potato_ray.starting import StartRequest

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
WANTED = StartRequest(trainer="sklearn-text", schemas=("sentiment",), idempotency_key="once")


@dataclass
class Controller:
    """What admission needs of the controller."""

    config: ProjectConfig
    registry: Registry

    async def write(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)


@pytest.fixture
def controller(tmp_path: Path) -> Iterator[Controller]:
    shutil.copytree(PROJECT, tmp_path / "p")
    config = load(tmp_path / "p" / "config.yaml")
    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        yield Controller(config, registry)


def enqueue(controller: Controller, request: StartRequest = WANTED) -> Any:
    return asyncio.run(Admission(controller).enqueue(request))


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
