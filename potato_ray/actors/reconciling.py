"""Taking up the runs that an earlier controller has left, each where the registry says it was.

What agents have in hand, or could ask for, is taken up only where agents can reach us: elsewhere nobody would
be heard, and every such run be taken for lost.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from potato_ray.actors.failures import passes_by_itself, unexpected
from potato_ray.errors import PotatoRayError
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController

logger = logging.getLogger(__name__)

_AT_AN_AGENT = frozenset({State.BUILDING, State.RUNNING, State.EVALUATING})


class Reconciling:
    """Of one controller. `left` are the runs that hold a slot of the next server, and none of ours."""

    def __init__(self, controller: RunController) -> None:
        self.controller = controller
        self.left: frozenset[str] = frozenset()

    async def take_up(self) -> None:
        """Take up every unfinished run. Nothing is guessed; what is done twice changes nothing."""
        controller = self.controller
        unfinished = await controller.write(controller.registry.unfinished)
        left = {run.run_id for run in unfinished if self._is_left(run)}
        self.left = frozenset(
            run.run_id for run in unfinished if run.run_id in left and run.state in _AT_AN_AGENT
        )
        followed = {run.run_id for run in controller.followed()}
        for run in unfinished:
            if run.state is not State.QUEUED and run.run_id not in left | followed:
                await self._take_up(run)

    def _is_left(self, run: Run) -> bool:
        """Whether a run is for agents, which only a server hears."""
        waits = run.state in _AT_AN_AGENT or run.state is State.OFFERED
        return waits and not self.controller.hears_agents and self.controller.desk.serves(run.backend)

    async def _take_up(self, run: Run) -> None:
        if run.state is State.OFFERED:
            await self._look_at_offer(run)
        elif run.state is State.BUILDING:
            await self._requeue(run)
        elif await asyncio.to_thread(self._was_taken_back, run):
            await self.controller.write(
                self.controller.registry.transition, run.run_id, run.attempt, State.OFFERED
            )
        else:
            self.controller.follow(run, placement=None)

    async def _look_at_offer(self, run: Run) -> None:
        """Leave on offer what agents can still have; the configuration may have changed meanwhile."""
        controller = self.controller
        try:
            controller.admission.plan_again(run)
        except PotatoRayError as error:
            if passes_by_itself(error):
                raise
            await controller.admission.refuse(run, error)
        except Exception:
            logger.exception("run %s could not be offered any more", run.run_id)
            await controller.admission.refuse(run, unexpected("The run could not be started"))
        else:
            if not controller.desk.serves(run.backend):
                await controller.write(controller.registry.transition, run.run_id, run.attempt, State.QUEUED)

    async def _requeue(self, run: Run) -> None:
        """A build ends with the process that made it."""
        registry = self.controller.registry
        state = State.CANCELLED if run.cancel_requested_at else State.QUEUED
        await self.controller.write(registry.transition, run.run_id, run.attempt, state)
        await self.controller.write(registry.release, run.run_id)

    def _was_taken_back(self, run: Run) -> bool:
        """Whether the controller ended between taking a run from a lost agent and offering it again."""
        if run.state is not State.RUNNING or not self.controller.desk.serves(run.backend):
            return False
        mirror = MirrorFolder(self.controller.run_folder(run.run_id))
        try:
            return mirror.path.is_dir() and not mirror.claim.exists()
        except OSError:
            return False
