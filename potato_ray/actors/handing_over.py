"""Handing a run over to its agent: the bundle in one file, and job.json beside it.

The agent has claimed the run; or it is one of our own, which will be started on a host, and for which the
run is claimed here.

job.json is what the agent gets as its answer, and is written last: where it is, the job can be fetched.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potato_ray.actors import tasks
from potato_ray.actors.failures import answer_of
from potato_ray.actors.task_tries import TaskTries
from potato_ray.agent.protocol import PROGRESS_EVERY_S
from potato_ray.backends.grants import starts_agents
from potato_ray.backends.making import lost_after_s
from potato_ray.errors import Cancelled
from potato_ray.job.folder import read_json, write_json
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.runs import Run
from potato_ray.shipping.packed import clear_unfinished

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController

VERSION = 1


class HandingOver:
    """Makes the job of one attempt of a run ready for its agent."""

    def __init__(self, controller: RunController, run: Run) -> None:
        self.controller = controller
        self.run = run
        self.mirror = MirrorFolder(controller.run_folder(run.run_id))
        self._is_ours = starts_agents(controller.config, run.backend)

    async def hand_over(self, cancelled: Callable[[], bool]) -> None:
        """Pack the bundle and write job.json, unless that was done.

        Raises Cancelled where nobody has the job yet and nobody shall, RunFailed (bundle_failed).
        """
        if await asyncio.to_thread(self.mirror.read_job, self.run.attempt) is not None:
            return
        if self._is_ours:
            await self.controller.granting.claim_for_us(self.run)
        packed = await self._packed() if not cancelled() else {}
        if cancelled():
            raise Cancelled("The run was cancelled before its agent could fetch it.")
        await asyncio.to_thread(write_json, self.mirror.job, self._document(packed))

    async def _packed(self) -> dict[str, Any]:
        """What tasks.pack_job answers; a packing whose process was lost is done again."""
        folder, state_dir = str(self.mirror.path), str(self.controller.config.state_dir)

        async def pack() -> dict[str, Any]:
            return dict(await answer_of(tasks.pack_job.remote(folder, state_dir, self._is_ours)))

        return await TaskTries(self.run.run_id, "packing the bundle", "bundle_failed").answer(pack)

    def _document(self, packed: Mapping[str, Any]) -> dict[str, Any]:
        training = self.controller.config.model_training
        return {
            "v": VERSION,
            "run_id": self.run.run_id,
            "attempt": self.run.attempt,
            "backend": self.run.backend,
            "spec": read_json(self.mirror.spec),
            "bundle": packed["bundle"],
            "code": packed["code"],
            "grace_seconds": training.grace_seconds,
            "lost_after_s": lost_after_s(self.controller.config, self.run.backend),
            "progress_every_s": PROGRESS_EVERY_S,
            "max_predictions_mb": training.max_predictions_mb,
        }

    async def take_back(self) -> None:
        """The agent was lost: from now on it is told that the run is not its own, and nobody can fetch it."""
        await asyncio.to_thread(self.mirror.clear)
        await self.clear_up()

    async def clear_up(self) -> None:
        """The run is over: nobody will fetch it any more."""
        await asyncio.to_thread(self._remove)

    def _remove(self) -> None:
        clear_handed_over(self.mirror)


def clear_handed_over(mirror: MirrorFolder) -> None:
    """Remove what an agent could fetch, and what a packer has left. Raises OSError."""
    for path in (mirror.job, mirror.bundle_archive, mirror.lease):
        path.unlink(missing_ok=True)
    clear_unfinished(mirror.path)


def clear_after_ends(folder: Path, is_over: Callable[[str], bool]) -> list[str]:
    """Clear up behind runs whose end a controller did not outlive; `folder` holds the runs' folders.

    Answers the runs that there was something of. One listing, and a look at three names in each folder; an
    end is final, so a run that goes on, or begins meanwhile, is not touched.
    """
    left = []
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        mirror = MirrorFolder(path)
        # job.json is written last, the lease first, and any of them may have gone first.
        given = (mirror.job, mirror.bundle_archive, mirror.lease)
        if any(each.exists() for each in given) and is_over(path.name):
            clear_handed_over(mirror)
            left.append(path.name)
    return left
