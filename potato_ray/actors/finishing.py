"""The last part of a run's way: its scores, its predictions in the registry, and the write-back."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potato_ray.actors import tasks
from potato_ray.actors.failures import answer_of, forget
from potato_ray.actors.task_tries import TaskTries
from potato_ray.errors import RunFailed
from potato_ray.job.folder import JobFolder
from potato_ray.registry.runs import Run
from potato_ray.writeback import Publication, WritebackReport

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController

LINES_AT_ONCE = 1000


class Finishing:
    """Finishes one attempt of a run whose worker has ended well. Each part may be done again."""

    def __init__(self, controller: RunController, run: Run) -> None:
        self.controller = controller
        self.run = run
        self.job = JobFolder(controller.run_folder(run.run_id))

    async def scored(self, same_splits: bool) -> dict[str, Any]:
        """Score the run and, beside that, store its predictions; what tasks.finish_run answers.

        `same_splits` False: the study was split in another way before. Raises RunFailed.
        """
        storing = asyncio.ensure_future(self._store_predictions())
        try:
            finished = await self._finished(same_splits)
            await storing
        finally:
            storing.cancel()
            storing.add_done_callback(forget)
        return finished

    async def _store_predictions(self) -> None:
        """Every line of predictions.jsonl goes into the registry, in parts between which others write."""
        parts, stored = _parts(self.job.predictions), 0
        while lines := await asyncio.to_thread(next, parts, None):
            await self.controller.write_surely(
                self.controller.registry.store_lines,
                self.run.run_id,
                self.run.attempt,
                b"".join(lines),
                stored + 1,
            )
            stored += len(lines)

    async def _finished(self, same_splits: bool) -> dict[str, Any]:
        training = self.controller.config.model_training
        previous = await asyncio.to_thread(self.controller.reader.previous_success, self.run.run_id)

        async def finish() -> dict[str, Any]:
            reference = tasks.finish_run.remote(
                str(self.job.path),
                self.run.trainer,
                self.run.split_seed,
                previous[1] if previous else None,
                same_splits,
                training.writeback.score_blind_only,
            )
            return dict(await answer_of(reference))

        return await TaskTries(self.run.run_id, "scoring the run", "backend_failed").answer(finish)

    async def published(self, scores: Mapping[str, Any]) -> WritebackReport:
        """Write the predictions back; one that was cut off goes on where it stopped."""
        publication = await self.controller.write_surely(
            Publication,
            self.controller.registry,
            self.run.run_id,
            self.run.attempt,
            self.controller.writeback_settings(),
            scores.get("headline"),
        )
        await self.controller.write_steps(publication.step)
        return publication.report()


def _parts(path: Path) -> Iterator[list[bytes]]:
    """The lines of a file, LINES_AT_ONCE at a time. Raises RunFailed (no_result)."""
    try:
        with path.open("rb") as handle:
            while lines := list(itertools.islice(handle, LINES_AT_ONCE)):
                yield lines
    except OSError as failure:
        raise RunFailed(
            "The run's predictions cannot be read.",
            code="no_result",
            evidence=f"{path.name}: {failure.strerror or type(failure).__name__}.",
            next_step="Start the run again.",
        ) from failure
