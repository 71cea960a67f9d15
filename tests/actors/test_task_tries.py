"""A task whose process was lost is given to another one, a few times; one that failed is not."""

from __future__ import annotations

import asyncio

import pytest
import ray.exceptions

from potato_ray.actors.task_tries import MAX_TRIES, TaskTries
from potato_ray.errors import PotatoRayError, RunFailed

TRIES = TaskTries("r", "building the bundle", "bundle_failed")
LOST = ray.exceptions.WorkerCrashedError()


def answer(*outcomes: Exception | str) -> str:
    """What comes of a task that fares like this, try by try; each outcome has to be used."""
    left = list(outcomes)

    async def submit() -> str:
        outcome = left.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    try:
        return asyncio.run(TRIES.answer(submit))
    finally:
        assert not left


def test_a_task_that_was_lost_is_done_again() -> None:
    assert answer(LOST, LOST, "done") == "done"


def test_one_that_is_lost_again_and_again_fails_the_run() -> None:
    with pytest.raises(RunFailed) as failed:
        answer(*[LOST] * MAX_TRIES)
    assert failed.value.code == "bundle_failed"
    assert failed.value.message == "The run failed while building the bundle."


def test_one_that_failed_is_not_done_again_and_its_own_error_is_told() -> None:
    own = RunFailed("No space left on device.", code="disk_full", next_step="Free some.")
    with pytest.raises(PotatoRayError) as failed:
        answer(ray.exceptions.RayTaskError("build", "trace", own))
    assert failed.value is own
