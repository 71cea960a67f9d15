"""A registry on an empty project, a clock that a test moves, and a run on any step of its way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from clocks import Clock

from potato_ray.registry import NewRun, Registry, RegistryReader, Run, State

NEW = NewRun("sklearn-text", ("sentiment",), ("nominal",), {"seed": 1})
WAY = (State.RUNNING, State.EVALUATING, State.FINISHING)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "project.sqlite"


@pytest.fixture
def registry(path: Path, clock: Clock) -> Iterator[Registry]:
    with Registry(path, "demo", clock) as opened:
        yield opened


@pytest.fixture
def reader(registry: Registry) -> RegistryReader:
    return RegistryReader(registry.path)


@pytest.fixture
def queue_run(registry: Registry) -> Callable[..., Run]:
    """Put a run in the queue; keyword arguments replace the rule of the queue."""

    def make(new: NewRun = NEW, **rule: Any) -> Run:
        return registry.create_run(new, **{"queue_max": 10, "allow_queue": True, "max_concurrent": 1, **rule})

    return make


@pytest.fixture
def run_in(registry: Registry, queue_run: Callable[..., Run]) -> Callable[..., Run]:
    """A run that has come to the given state, whatever else is under way."""

    def make(state: State, new: NewRun = NEW, **fields: Any) -> Run:
        run = queue_run(new, queue_max=1000)
        if state in (State.QUEUED, State.OFFERED):
            return (
                registry.run(run.run_id)
                if state is State.QUEUED
                else registry.transition(run.run_id, 0, state)
            )
        begun = registry.begin(run.run_id, None, 1000)
        assert begun is not None
        run = begun
        for step in WAY[: WAY.index(state) + 1] if state in WAY else WAY:
            if run.state is not state and state is not State.BUILDING:
                run = registry.transition(run.run_id, 1, step)
        return run if run.state is state else registry.transition(run.run_id, 1, state, **fields)

    return make
