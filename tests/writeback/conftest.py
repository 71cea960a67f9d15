"""A registry on an empty project, and runs that are ready to be written back."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from publishing import publish

from potato_ray.registry import NewRun, Registry, RegistryReader, State, StoredPrediction
from potato_ray.writeback import WritebackReport, WritebackSettings


@pytest.fixture
def settings() -> WritebackSettings:
    return WritebackSettings(schemas=("sentiment",), min_confidence=0.6)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "project.sqlite"


@pytest.fixture
def registry(path: Path) -> Iterator[Registry]:
    ticks = iter(range(10**9))
    with Registry(path, "demo", lambda: 1_795_955_098.0 + next(ticks)) as opened:
        yield opened


@pytest.fixture
def shown(registry: Registry) -> Callable[[str], dict[str, Any]]:
    return RegistryReader(registry.path).shown


@pytest.fixture
def finishing(registry: Registry) -> Callable[..., str]:
    """A run that is being finished: its train items and its predictions are stored."""

    def make(*predictions: StoredPrediction, trained: tuple[str, ...] = ()) -> str:
        new = NewRun("sklearn-text", ("sentiment",), ("nominal",))
        run = registry.create_run(new, queue_max=99, allow_queue=True, max_concurrent=99)
        registry.begin(run.run_id, None, 99)
        registry.record_items(run.run_id, 1, "train", trained)
        for state in (State.RUNNING, State.EVALUATING, State.FINISHING):
            registry.transition(run.run_id, 1, state)
        registry.store_predictions(run.run_id, 1, predictions)
        return run.run_id

    return make


@pytest.fixture
def succeed(
    registry: Registry, finishing: Callable[..., str], settings: WritebackSettings
) -> Callable[..., tuple[str, WritebackReport]]:
    """A run that is written back and a success."""

    def make(*predictions: StoredPrediction, trained: tuple[str, ...] = (), **how: Any) -> Any:
        run_id = finishing(*predictions, trained=trained)
        report = publish(registry, run_id, 1, how.pop("settings", settings), **how)
        registry.transition(run_id, 1, State.SUCCESS, writeback=report.as_json())
        return run_id, report

    return make


@pytest.fixture
def reject(path: Path) -> Callable[..., None]:
    """A reviewer's verdict in Potato's table."""

    def write(instance_id: str, schema: str = "sentiment", verdict: str = "reject") -> None:
        connection = sqlite3.connect(path)
        connection.execute(
            "CREATE TABLE IF NOT EXISTS model_review_verdicts"
            " (project, instance_id, schema_name, reviewer, verdict, note, updated_at)"
        )
        connection.execute(
            "INSERT INTO model_review_verdicts VALUES ('demo', ?, ?, 'tanja', ?, '', 0)",
            (instance_id, schema, verdict),
        )
        connection.commit()
        connection.close()

    return write
