"""Admission: which waiting run may start, oldest first, and what becomes of one that may not any more."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
from typing import TYPE_CHECKING

from potato_ray.actors.failures import passes_by_itself, unexpected
from potato_ray.actors.placing import Placing
from potato_ray.backends.base import Placement, Refusal
from potato_ray.backends.grants import gives_cards, starts_agents
from potato_ray.config.models import ModelTraining, ProjectConfig
from potato_ray.errors import Conflict, PotatoRayError, StartRefused
from potato_ray.registry.runs import NewRun, Reservation, Run
from potato_ray.registry.states import State
from potato_ray.starting import (
    StartPlan,
    StartRequest,
    plan_new_start,
    plan_start,
    request_of,
    require_same,
)

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController

logger = logging.getLogger(__name__)


class Admission:
    """Takes runs into the queue and out of it; those that begin are handed to `controller.follow`."""

    def __init__(self, controller: RunController) -> None:
        self.controller = controller
        self.registry = controller.registry
        self.placing = Placing(controller.wake)

    @property
    def _training(self) -> ModelTraining:
        return self.controller.config.model_training

    async def enqueue(self, request: StartRequest) -> Run:
        """Put a run into the queue, or find the one that an earlier start with the same key has made.

        What was made before is not checked again: the configuration may have changed since. Raises
        StartRefused, also when the key has made another run than is asked for.
        """
        run = await self._made_before(request) or await self._create(request)
        require_same(run, request)
        return run

    async def _made_before(self, request: StartRequest) -> Run | None:
        if request.idempotency_key is None:
            return None
        return await self.controller.write(
            self.registry.made_with, request.idempotency_key, self.controller.slots
        )

    async def _create(self, request: StartRequest) -> Run:
        plan = plan_new_start(self.controller.config, request)
        return await self.controller.write(
            self.registry.create_run,
            _new_run(request, plan, self._training.split_seed),
            queue_max=self._training.queue_max,
            allow_queue=request.queue,
            max_concurrent=self.controller.slots,
            for_agent=self.controller.desk.serves(plan.backend),
        )

    async def admit(self) -> bool:
        """Start waiting runs while there is room, offer those for agents. True when one waits for a place."""
        full = set[str]()
        for run in await self.controller.write(self.registry.queued):
            if self._closed():
                break
            try:
                if self.controller.desk.serves(run.backend):
                    await self.controller.desk.offer(run)
                elif self.controller.has_free_slot:
                    await self._try_to_start(run, full)
            except PotatoRayError as error:
                if passes_by_itself(error):
                    return True
                await self.refuse(run, error)
            except sqlite3.OperationalError as error:
                if not passes_by_itself(error):
                    raise
                return True
            except Exception:
                logger.exception("run %s could not be started", run.run_id)
                await self.refuse(run, unexpected("The run could not be started"))
        return await self.controller.desk.look_after_offers() or bool(full)

    async def _try_to_start(self, run: Run, full: set[str]) -> None:
        """`full` are the backends on which an older run waits for a GPU; this one must not take it."""
        plan = self.plan_again(run)
        if plan.uses_gpu and run.backend in full:
            return
        placement = await self._placed(run, plan)
        if placement is None:
            full.add(run.backend)
            return
        if isinstance(placement, Refusal):
            await self._wait_for_place(run, placement)
            full.add(run.backend)
            return
        if self._closed():
            return  # the queue was held while a place was looked for
        begun = await self.controller.write(
            self.registry.begin,
            run.run_id,
            _reservation(run.backend, placement),
            self.controller.slots,
        )
        if begun is not None:
            self.controller.follow(begun, placement)

    async def _placed(self, run: Run, plan: StartPlan) -> Placement | Refusal | None:
        """A place for a run; None while one is looked for on another machine."""
        backend = self.controller.backend(run.backend)
        taken = await self.controller.write(self.registry.taken, run.backend)
        if not plan.uses_gpu or not _looks_elsewhere(self.controller.config, run.backend):
            return await asyncio.to_thread(backend.place, taken, uses_gpu=plan.uses_gpu)
        placement = self.placing.look(run.run_id, backend, taken)
        if placement is None and not run.step:
            await self._note_step(run, f"looking for a GPU on {run.backend}")
        return placement

    def _closed(self) -> bool:
        return self.controller.stopping or self.controller.holding

    async def _wait_for_place(self, run: Run, refusal: Refusal) -> None:
        """Say in the step line what the run waits for. Raises PotatoRayError when waiting does not help."""
        if not refusal.wait:
            raise PotatoRayError(
                refusal.message,
                code=refusal.code,
                evidence=refusal.evidence,
                next_step=refusal.next_step,
            )
        await self._note_step(run, refusal.message)

    async def _note_step(self, run: Run, step: str) -> None:
        with contextlib.suppress(Conflict):  # the registry is locked: it is said again at the next look
            await self.controller.write(self.registry.note_progress, run.run_id, run.attempt, step, 0, 0)

    def plan_again(self, run: Run) -> StartPlan:
        """The plan of a run that has waited. Raises PotatoRayError (invalid_when_dequeued)."""
        try:
            return plan_start(self.controller.config, request_of(run))
        except StartRefused as refusal:
            raise PotatoRayError(
                f"The configuration has changed since the run was queued. {refusal.message}",
                code="invalid_when_dequeued",
                evidence=refusal.evidence,
                next_step=refusal.next_step,
            ) from refusal

    async def refuse(self, run: Run, error: PotatoRayError) -> None:
        """End a waiting run that cannot begin."""
        await self.controller.write(
            self.registry.transition,
            run.run_id,
            run.attempt,
            State.ERROR,
            error=error.message,
            error_code=error.code,
            error_evidence=error.evidence,
            error_next_step=error.next_step,
        )
        self.controller.wake()


def _new_run(request: StartRequest, plan: StartPlan, split_seed: int) -> NewRun:
    return NewRun(
        trainer=plan.trainer.name,
        schemas=tuple(scheme.name for scheme in plan.schemes),
        kinds=tuple(scheme.kind or "" for scheme in plan.schemes),
        params=dict(request.params),
        backend=plan.backend,
        trigger=request.trigger,
        accept_licence=request.accept_licence,
        idempotency_key=request.idempotency_key,
        split_seed=split_seed,
    )


def _reservation(backend: str, placement: Placement) -> Reservation:
    return Reservation(backend=backend, gpu_uuids=placement.gpu_uuids, device=placement.device)


def _looks_elsewhere(config: ProjectConfig, backend: str) -> bool:
    """Whether another machine has to be asked for a GPU, which takes its time."""
    return starts_agents(config, backend) and gives_cards(config, backend)
