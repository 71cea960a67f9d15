"""Whose times a run has: those of its worker, and none where there was no worker."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from controlled import controlled

from potato_ray.actors.controller import RunController
from potato_ray.actors.way import RunWay
from potato_ray.actors.workers import worker_of
from potato_ray.config import ProjectConfig
from potato_ray.job.folder import Exit, JobFolder, Processes, ProcessId
from potato_ray.registry import NewRun, Registry, Run, State

WORKER = Processes(ProcessId(41, 1, "node07"), ProcessId(42, 2, "node07"), 1772357400.0)
WORDS = [{"event": "status", "phase": "fitting"}]


def handed_over(registry: Registry) -> Run:
    """A run that somebody else has to start: its job may wait for hours."""
    new = NewRun("sklearn-text", ("sentiment",), ("nominal",))
    run_id = registry.create_run(new, queue_max=9, allow_queue=True, max_concurrent=9).run_id
    registry.begin(run_id, None, 9)
    return registry.transition(run_id, 1, State.RUNNING)


def cancelled(config: ProjectConfig, left: Processes | None, words: Any = (), torn: str = "") -> Run:
    """The run once it was cancelled, where a worker has left its process.json, and said some words."""

    async def scenario(controller: RunController) -> Run:
        controller.holding = True
        await controller.ready()
        way = RunWay(controller, await controller.write(handed_over, controller.registry), None)
        way.job.path.mkdir(parents=True)
        if left is not None:
            way.job.write_processes(left)
        if torn:
            way.job.process.write_text(torn)
        await way.heard(words, ())
        await way._end(State.CANCELLED)
        return way.run

    run: Run = controlled(config, scenario)
    assert run.state is State.CANCELLED
    return run


def test_a_run_whose_worker_never_was_has_no_times_of_one(config: ProjectConfig) -> None:
    run = cancelled(config, None)
    assert (run.started_at, run.duration_s, run.pid) == (None, None, None)


@pytest.mark.parametrize("words", [WORDS, ()])
def test_a_worker_tells_its_own_start_whether_it_has_said_a_word_or_not(
    config: ProjectConfig, words: Any
) -> None:
    run = cancelled(config, WORKER, words)
    assert (run.started_at, run.pid, run.host) == (WORKER.started_at, 42, "node07")


@pytest.mark.parametrize("torn", ["{", json.dumps({"worker": 1})])
def test_a_run_ends_though_it_cannot_be_read_who_trained(config: ProjectConfig, torn: str) -> None:
    assert cancelled(config, None, WORDS, torn).started_at is None


def told_of(folder: Path, end: Exit | None, events: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """What is known at 1000 of a worker elsewhere, whose run left the queue at 100."""
    job = JobFolder(folder)
    if end is not None:
        job.write_exit(end)
    begun = Run("r", "p", "t", (), (), {}, "far", State.RUNNING, 1, "manual", 90.0, begun_at=100.0)
    return worker_of(job, begun, events, clock=lambda: 1000.0)


@pytest.mark.parametrize(("said_at", "started_at"), [(400.0, 400.0), (7.0, 1000.0), (4000, 1000.0)])
def test_a_worker_elsewhere_started_by_its_first_word_unless_the_clock_there_is_off(
    tmp_path: Path, said_at: float, started_at: float
) -> None:
    assert told_of(tmp_path, None, [{"t": said_at}, {"t": said_at + 1}]) == {"started_at": started_at}


@pytest.mark.parametrize(
    ("began", "ended", "known"),
    [
        (400.0, 450.0, {"started_at": 400.0}),
        (9400.0, 9450.0, {"started_at": 950.0}),
        (400.0, 400.0, {}),
        (0.0, 0.0, {}),
    ],
)
def test_a_worker_elsewhere_that_said_nothing_is_known_by_its_end_and_one_that_never_was_is_not(
    tmp_path: Path, began: float, ended: float, known: dict[str, Any]
) -> None:
    assert told_of(tmp_path, Exit(1, None, started_at=began, ended_at=ended)) == known


@pytest.mark.parametrize("event", [{}, {"t": None}, {"t": "soon"}])
def test_an_event_without_a_time_tells_no_start(tmp_path: Path, event: dict[str, Any]) -> None:
    assert told_of(tmp_path, None, [event]) == {}
