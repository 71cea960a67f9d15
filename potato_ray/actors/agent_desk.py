"""Runs on offer to agents: who gets which, and for how long they wait. A part of the controller.

    queued ─ offer ─▶ offered (holds no slot) ─ claim ─▶ building … : from here on as any other run

One claim gets one run: the registry takes it out in one transaction. The lease, which the agent made up,
is remembered by its sha256 in claim.json of the run's folder; the same lease gets the same run again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from hmac import compare_digest
from typing import TYPE_CHECKING, Any

from potato_ray.actors.failures import unexpected
from potato_ray.actors.offer_times import Offer, OfferTimes, Waited
from potato_ray.agent_tokens import digest_of, is_agent_backend, new_token, require_agent_backend
from potato_ray.backends.base import Placement
from potato_ray.errors import Conflict, PotatoRayError, ProjectUnwritable
from potato_ray.mirror.folder import ClaimNote, MirrorFolder
from potato_ray.registry.agents import AgentSeen
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController

logger = logging.getLogger(__name__)

COME_BACK_S = 60.0
"""How long an offer goes on after a start of the controller, unless it may not wait so long at all."""


class AgentDesk:
    """Offers runs to agents and gives them out. `clock` is monotonic, `wall_clock` epoch seconds."""

    def __init__(
        self,
        controller: RunController,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self.controller = controller
        self._clock = clock
        self._wall_clock = wall_clock
        self._times = OfferTimes(lambda: self._clock())
        self._given_back: dict[str, Waited] = {}
        self._troubles: dict[str, str] = {}
        self._claiming = asyncio.Lock()

    def serves(self, backend: str) -> bool:
        """Whether the runs of a backend are for agents."""
        return is_agent_backend(self.controller.config, backend)

    async def offer(self, run: Run) -> None:
        """Take a run out of the queue; it waits for an agent and holds no slot.

        Without agents that can hear of it, it stays there. Raises PotatoRayError (invalid_when_dequeued).
        """
        if not self.controller.hears_agents:
            return
        self.controller.admission.plan_again(run)
        registry = self.controller.registry
        run = await self.controller.write(registry.transition, run.run_id, run.attempt, State.OFFERED)
        self._look()
        self._times.add((run.run_id, run.offered_at), self._given_back.pop(run.run_id, Waited()))

    async def look_after_offers(self) -> bool:
        """End the offers that have waited too long. True when one may do so later."""
        if not self.controller.hears_agents:
            return False
        self._look()
        timed = set[Offer]()
        for backend, settings in self.controller.config.model_training.backends.items():
            if not self.serves(backend):
                continue
            timeout_s = getattr(settings, "queue_timeout_s", None)
            for run in await asyncio.to_thread(self.controller.reader.offered, backend):
                await self._say_what_it_waits_for(run)
                if timeout_s is not None:
                    timed.add((run.run_id, run.offered_at))
                    await self._expire_in_time(run, float(timeout_s))
        self._times.keep(timed)
        return bool(timed)

    async def _say_what_it_waits_for(self, run: Run) -> None:
        """In the step line: a free slot; nothing where it waits for an agent alone."""
        slots = self.controller.config.model_training.max_concurrent_runs
        free = self.controller.has_free_slot
        step = "" if free else f"waiting for a free slot (max_concurrent_runs is {slots})"
        if step != run.step:
            with contextlib.suppress(Conflict):  # the registry is locked: it is said again at the next look
                await self.controller.write(
                    self.controller.registry.note_progress, run.run_id, run.attempt, step, 0, 0
                )

    async def _expire_in_time(self, run: Run, timeout_s: float) -> None:
        offer = (run.run_id, run.offered_at)
        waited = self._times.of(offer)
        if waited is None:
            waited = await asyncio.to_thread(self._waited_before, run, timeout_s)
            self._times.add(offer, waited)
        if waited.free_s >= timeout_s:
            await self._expire(run, timeout_s, waited)

    def _look(self) -> None:
        self._times.look(is_free=self.controller.has_free_slot)

    def _waited_before(self, run: Run, timeout_s: float) -> Waited:
        """How long a run has waited when we come to know of it, in a thread.

        Agents were away while the server was, and are given a moment to come back.
        """
        if run.offered_at is None:
            return Waited()
        now, slots = self._wall_clock(), self.controller.config.model_training.max_concurrent_runs
        full_s = self.controller.reader.slots_full_s(slots, run.offered_at, now)
        free_s = max(0.0, now - run.offered_at - full_s)
        return Waited(min(free_s, max(0.0, timeout_s - COME_BACK_S)), full_s)

    async def _expire(self, run: Run, timeout_s: float, waited: Waited) -> None:
        agents = await asyncio.to_thread(self.controller.reader.agents, run.backend)
        last = f"The last agent seen was on {agents[0].host}." if agents else "No agent was ever seen."
        if waited.full_s >= 1:
            slots = self.controller.config.model_training.max_concurrent_runs
            last += (
                f" For {waited.full_s:.0f} seconds more no slot was free (max_concurrent_runs is {slots})."
            )
        error = PotatoRayError(
            f"No agent on {run.backend} asked for work for {timeout_s:g} seconds.",
            code="queue_timeout",
            evidence=last,
            next_step=f"Start an agent there, or raise queue_timeout_s of backend {run.backend}.",
        )
        trouble = self._troubles.get(run.run_id, "")
        if trouble:
            error = PotatoRayError(
                f"The run could not be given to an agent on {run.backend} for {timeout_s:g} seconds.",
                code="queue_timeout",
                evidence=trouble,
                next_step="Mend that, then start the run again.",
            )
        await self._refuse(run, error)

    async def _refuse(self, run: Run, error: PotatoRayError) -> None:
        """End a run on offer, unless it was claimed or cancelled just now."""
        with contextlib.suppress(Conflict):
            await self.controller.admission.refuse(run, error)

    async def claim(self, backend: str, lease_sha256: str, agent: Mapping[str, Any]) -> dict[str, Any] | None:
        """The run that this lease holds, or else the oldest on offer, which begins; None: there is none.

        Answers {"run_id", "attempt"}.
        """
        async with self._claiming:
            held = await asyncio.to_thread(self._held_by, backend, lease_sha256)
            if held is not None or self.controller.stopping or self.controller.holding:
                return held
            for run in await asyncio.to_thread(self.controller.reader.offered, backend):
                if not self.controller.has_free_slot:
                    break
                begun = await self._begin(run, lease_sha256, agent)
                if begun is not None:
                    return {"run_id": begun.run_id, "attempt": begun.attempt}
        return None

    def _held_by(self, backend: str, lease_sha256: str) -> dict[str, Any] | None:
        for run in self.controller.followed():
            if run.backend != backend or run.ended:
                continue
            claim = self._mirror(run).read_claim()
            if claim is None or claim.attempt != run.attempt:
                continue
            if compare_digest(claim.lease_sha256, lease_sha256):
                return {"run_id": run.run_id, "attempt": run.attempt}
        return None

    async def _begin(self, run: Run, lease_sha256: str, agent: Mapping[str, Any]) -> Run | None:
        """Begin a run for an agent; None when it cannot begin now, or any more."""
        try:
            plan = self.controller.admission.plan_again(run)
        except PotatoRayError as error:
            await self._refuse(run, error)
            return None
        except Exception:
            logger.exception("run %s could not be given to an agent", run.run_id)
            await self._refuse(run, unexpected("The run could not be started"))
            return None
        if self.controller.stopping or self.controller.holding:
            return None
        self._look()
        waited = self._times.of((run.run_id, run.offered_at)) or Waited()
        begun: Run | None = await self.controller.write(
            self.controller.registry.begin,
            run.run_id,
            None,
            self.controller.slots,
        )
        if begun is None:
            return None
        claim = ClaimNote(begun.attempt, lease_sha256, dict(agent), begun.begun_at or 0.0)
        try:
            await asyncio.to_thread(self._give, begun, claim)
        except OSError as failure:
            unwritable = ProjectUnwritable.because(failure, "The run's folder")
            self._given_back[run.run_id] = waited
            self._troubles[run.run_id] = f"{unwritable.message} {unwritable.evidence}".strip()
            await self._take_back(begun)
            raise unwritable from failure
        self._troubles.pop(run.run_id, None)
        placed = self.controller.backend(run.backend).place(frozenset(), uses_gpu=plan.uses_gpu)
        host = str(agent.get("host") or "an unnamed host")
        device = placed.device if isinstance(placed, Placement) else "auto"
        step = f"taken by the agent on {host}"
        self.controller.follow(begun, Placement(run.backend, device, step=step, host=host))
        self.controller.wake()  # the other offers may wait for a slot from now on
        return begun

    async def _take_back(self, run: Run) -> None:
        """A run that began and could not be given to anybody waits again, and holds no slot."""
        await self.controller.write_surely(
            self.controller.registry.transition, run.run_id, run.attempt, State.QUEUED
        )
        self.controller.wake()

    def _give(self, run: Run, claim: ClaimNote) -> None:
        mirror = self._mirror(run)
        mirror.path.mkdir(parents=True, exist_ok=True)
        mirror.clear()
        mirror.write_claim(claim)

    def _mirror(self, run: Run) -> MirrorFolder:
        return MirrorFolder(self.controller.run_folder(run.run_id))

    async def register(self, name: str) -> dict[str, str]:
        """A new token for a backend; the one before is worth nothing from then on."""
        require_agent_backend(self.controller.config, name)
        token = new_token()
        await self.controller.write(self.controller.registry.put_token, name, digest_of(token))
        return {"backend": name, "token": token}

    async def seen(self, backend: str, agents: Sequence[Mapping[str, Any]]) -> None:
        """Record agents that the server has heard of."""
        known = [
            AgentSeen(
                **{
                    **agent,
                    "backend": backend,
                    "gpus": tuple(agent.get("gpus", ())),
                    "lacks": tuple(agent.get("lacks", ())),
                }
            )
            for agent in agents
        ]
        await self.controller.write(self.controller.registry.put_agents_seen, known)
