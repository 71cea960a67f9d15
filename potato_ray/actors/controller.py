"""The RunController: one detached actor that owns the queue and the registry of a project.

    start, cancel, withdraw   commands, from CLI and server
    record_events, ...        events, from the tasks of a run; every one carries the attempt

It writes SQLite from one thread and never blocks its event loop. It begins where the registry says
it stopped: Ray restarts it when its process is killed, and then `__init__` is all that runs.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import ray

import potato_ray
from potato_ray.actors.admission import Admission
from potato_ray.actors.agent_desk import AgentDesk
from potato_ray.actors.embedded import restore_home
from potato_ray.actors.failures import passes_by_itself, unexpected
from potato_ray.actors.granting import Granting
from potato_ray.actors.handing_over import clear_after_ends
from potato_ray.actors.notifying import Notifier, page_of
from potato_ray.actors.reconciling import Reconciling
from potato_ray.actors.way import RunWay, is_plain
from potato_ray.backends.base import Backend, Directive, Placement
from potato_ray.backends.grants import Grant
from potato_ray.backends.making import lost_after_s, make_backend
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import PotatoRayError, StartRefused
from potato_ray.job.collection import collect_seldom, pass_over_what_is_loaded
from potato_ray.job.spare import SpareKeeper
from potato_ray.registry.pruning import Pruning
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import WAITING, State
from potato_ray.registry.store import Registry
from potato_ray.starting import HTTP_STATUS, StartRequest
from potato_ray.writeback import Replay, Withdrawal, WritebackSettings

if TYPE_CHECKING:
    from potato_ray.ssh import Destination

logger = logging.getLogger(__name__)
T = TypeVar("T")

NAME = "run-controller"
PLACE_AGAIN_AFTER_S = 5.0
WRITE_AGAIN_AFTER_S = 1.0
RELEASE_POLL_S = 0.5


class RunController:
    """Wrapped as a Ray actor by session.py; the class itself can be read without Ray.

    `hears_agents`: whether agents that somebody has started can reach us, as they can a server. Without it
    the runs and offers of their backends are left alone.
    """

    def __init__(self, config: ProjectConfig, keep_spare: bool = True, hears_agents: bool = True) -> None:
        restore_home()
        self.config = config
        self.keep_spare = keep_spare
        self.hears_agents = hears_agents
        notify = config.model_training.notify
        self.registry = Registry(
            config.registry_path, project=config.annotation_task_name, notices=notify is not None
        )
        self.reader = RegistryReader(config.registry_path, project=config.annotation_task_name)
        self.backends: dict[str, Backend] = {}
        self.spare = SpareKeeper(config.state_dir, num_threads=config.model_training.num_threads)
        self._spare_lock = asyncio.Lock()
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="registry-writer")
        self._ways: dict[str, RunWay] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake = asyncio.Event()
        self._ready = asyncio.Event()
        self.stopping = False
        self.holding = False
        self.admission = Admission(self)
        self.desk = AgentDesk(self)
        self.granting = Granting(self)
        self.reconciling = Reconciling(self)
        self.notifier = (
            Notifier(notify, self.registry, self.write_surely, partial(page_of, config)) if notify else None
        )
        self._broken: PotatoRayError | None = None
        self._spawn(self._live())

    # --- commands -------------------------------------------------------------------------------

    async def ready(self) -> dict[str, Any]:
        """Wait until the registry has been reconciled; answers who this is."""
        await self._opened()
        return {
            "version": potato_ray.__version__,
            "project": self.config.annotation_task_name,
            "pid": os.getpid(),
        }

    async def start(self, request: StartRequest) -> dict[str, Any]:
        """Put a run into the queue. The row is durable when this answers.

        Answers {"started": True, "run_id", "queued", "position"} or, refused,
        {"started": False, "error", "error_code", "evidence", "next_step", "status"}.
        """
        await self._opened()
        try:
            run = await self.admission.enqueue(request)
        except StartRefused as refusal:
            return {"started": False, **refusal.as_dict(), "status": HTTP_STATUS.get(refusal.code, 400)}
        self._wake.set()
        waits_for_agent = self.desk.serves(run.backend) and run.state in WAITING
        waits = bool(run.position) or waits_for_agent
        return {"started": True, "run_id": run.run_id, "queued": waits, "position": run.position}

    async def cancel(self, run_id: str) -> dict[str, Any]:
        """Cancel a waiting or running run; raises NotFound, or Conflict when it has ended."""
        await self._opened()
        run = await self.write(self.registry.request_cancel, run_id)
        way = self._ways.get(run_id)
        if way is not None:
            way.cancel()
        self.wake()
        return {"run_id": run_id, "state": str(run.state), "cancelled": run.state == State.CANCELLED}

    async def withdraw(self, run_id: str) -> int:
        """Withdraw a run's predictions and pre-labels; the number of pre-labels removed.

        Raises NotFound, or Conflict while the run goes on. Once noted, it is carried through.
        """
        await self._opened()
        withdrawal = await self.write(Withdrawal, self.registry, run_id)
        await self.write_steps(withdrawal.step)
        return withdrawal.removed

    async def register_backend(self, name: str) -> dict[str, str]:
        """A new token for an agent backend; raises NotFound, Conflict (not_an_agent_backend)."""
        await self._opened()
        return await self.desk.register(name)

    async def claim(self, backend: str, lease_sha256: str, agent: Mapping[str, Any]) -> dict[str, Any] | None:
        """A run for the agent that asks: {"run_id", "attempt"}, or None; see AgentDesk.claim."""
        await self._opened()
        return await self.desk.claim(backend, lease_sha256, agent)

    async def agents_seen(self, backend: str, agents: Sequence[Mapping[str, Any]]) -> None:
        """Record agents that were heard of: the fields of AgentSeen, but for the backend."""
        await self._opened()
        await self.desk.seen(backend, agents)

    async def hold_queue(self) -> None:
        """Let no waiting run begin any more: the end is near, and what waits is for the next controller.

        When this answers, a run that was just about to begin has begun, and is seen as such.
        """
        self.holding = True
        await self.write(lambda: None)  # behind a `begin` that is under way

    async def stop(self) -> None:
        """Take no more runs and let go of those under way: their launchers go on without us.

        Telling of ended runs comes last: whoever asked waits no longer than STOP_TIMEOUT_S.
        """
        self.stopping = True
        self._wake.set()
        for way in list(self._ways.values()):
            way.let_go()
        async with self._spare_lock:
            self.spare.close()
        if self.notifier is not None:
            await self.notifier.close()
        await self.write(self.registry.close)

    # --- events ---------------------------------------------------------------------------------

    async def record_events(
        self,
        run_id: str,
        attempt: int,
        first_seq: int,
        events: Sequence[Mapping[str, Any]],
        notes: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Take the next events of a run; a repeat changes nothing. Answers a Directive's fields."""
        way = self._ways.get(run_id)
        if way is None or way.run.attempt != attempt:
            return asdict(Directive(stale=True))
        # A batch that is sent again may overlap with its first sending.
        async with way.listening:
            # What is said with a worker's first words was said of its start; its own step stays on top.
            opening = first_seq == 0 and not way.run.ended
            before = [note for note in notes if opening and is_plain(note)]
            await way.heard((), before)
            if events:
                stale: bool = await self.write_surely(
                    self.registry.record_events, run_id, attempt, first_seq, list(events)
                )
                if stale:
                    return asdict(Directive(stale=True))
            await way.heard(events, [note for note in notes if note not in before])
        return asdict(Directive(cancel=way.cancelled, grace_s=self.config.model_training.grace_seconds))

    async def note_progress(self, run_id: str, attempt: int, step: str, current: int, total: int) -> None:
        """The step line and progress of a build; of several that come too quickly the newest counts."""
        way = self._ways.get(run_id)
        if way is not None and way.run.attempt == attempt:
            await way.note_progress(step, current, total)

    async def grant(self, run_id: str, attempt: int) -> Grant:
        """Let an agent of our own in; see Granting.grant. Asked again, it gives one more token."""
        await self._opened()
        return await self.granting.grant(run_id, attempt)

    async def slurm_adapter(self, backend: str, destination: Destination) -> Any:
        """The actor that keeps a backend's login, started if there is none; see SlurmAdapter."""
        # Imported where there is one: what it needs is loaded by nobody else.
        from potato_ray.actors.slurm_adapter import start_adapter

        return await asyncio.to_thread(start_adapter, backend, destination)

    # --- what the ways of the runs use ------------------------------------------------------------

    async def write(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Run one registry call in the writer thread."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._writer, lambda: function(*args, **kwargs))

    async def write_surely(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """The same for what must not be lost: waits while the registry is locked or cannot be written."""
        failures = 0
        while True:
            try:
                written = await self.write(function, *args, **kwargs)
            except (PotatoRayError, sqlite3.OperationalError) as error:
                if self.stopping or not passes_by_itself(error):
                    raise
                if not failures:
                    logger.warning("the registry could not be written, trying again: %s", error)
                failures += 1
            else:
                if failures:
                    logger.info("the registry was written at the %d. time", failures + 1)
                return written
            await asyncio.sleep(WRITE_AGAIN_AFTER_S)

    async def write_steps(self, step: Callable[[], bool]) -> None:
        """Write surely until `step` answers True: one transaction a call, so that others come in between."""
        while not await self.write_surely(step):
            pass

    def run_folder(self, run_id: str) -> Path:
        return self.config.training_dir / "runs" / run_id

    def backend(self, name: str) -> Backend:
        if name not in self.backends:
            self.backends[name] = make_backend(name, self.config)
        return self.backends[name]

    def writeback_settings(self) -> WritebackSettings:
        return WritebackSettings.from_config(
            self.config.model_training.writeback, self.config.annotation_schemes
        )

    # --- the life of the controller ---------------------------------------------------------------

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _live(self) -> None:
        try:
            await self._take_up()
        except PotatoRayError as error:
            self._broken = error
            return
        except Exception:
            logger.exception("the registry could not be taken up")
            self._broken = unexpected("The registry could not be taken up")
            return
        finally:
            self._ready.set()
        if self.notifier is not None:
            self.notifier.start()
        pass_over_what_is_loaded()
        collect_seldom()
        self._spawn(self._keep_spare())
        self._spawn(self._guarded(self._clear_after_ends, "what ended runs left could not be cleared up"))
        await self._guarded(self._replay, "the stored predictions could not be brought up to date")
        while not self.stopping:
            self._wake.clear()
            waits: bool | None = False
            if not self.holding:
                waits = await self._guarded(self.admission.admit, "the queue could not be looked at")
            await self._sleep_until_woken(60.0 if waits is False else PLACE_AGAIN_AFTER_S)

    async def _take_up(self) -> None:
        """Open the registry and reconcile it. Restarted by Ray, wait for one that is locked."""
        while True:
            if self.stopping:  # nobody would close it any more
                raise unexpected("The controller was stopped before the registry could be taken up")
            try:
                await self.write(self.registry.open)
                await self._reconcile()
                return
            except (PotatoRayError, sqlite3.OperationalError) as error:
                if not _is_restarted() or self.stopping or not passes_by_itself(error):
                    raise
                logger.warning("the registry cannot be taken up yet: %s", error)
            await asyncio.sleep(WRITE_AGAIN_AFTER_S)

    async def _guarded(self, work: Callable[[], Awaitable[T]], trouble: str) -> T | None:
        """Do a part of the controller's life; a failure is logged, and does not end that life."""
        try:
            return await work()
        except Exception:
            if not self.stopping:
                logger.exception("%s", trouble)
            return None

    async def _opened(self) -> None:
        """Wait until the registry is open and reconciled; raises what kept it from opening."""
        await self._ready.wait()
        if self._broken is not None:
            raise self._broken

    async def _clear_after_ends(self) -> None:
        """Remove what agents could fetch of runs whose end the last controller did not outlive."""
        await asyncio.to_thread(clear_after_ends, self.run_folder(""), self.reader.is_over)

    async def _replay(self) -> None:
        """Bring what is shown in line with the present settings, a chunk at a time between other writes."""
        replaying = Replay(self.registry, self.writeback_settings())
        while not await self.write_surely(replaying.step) and not self.stopping:
            pass

    async def _prune(self) -> None:
        """Forget old runs and what newer ones have replaced, a chunk at a time between other writes."""
        pruning = Pruning(self.registry, self.config.model_training.retain_runs)
        while not self.stopping and not await self.write_surely(pruning.step):
            pass

    async def _sleep_until_woken(self, at_most_s: float) -> None:
        try:
            await asyncio.wait_for(self._wake.wait(), at_most_s)
        except TimeoutError:
            pass

    async def _reconcile(self) -> None:
        await self.reconciling.take_up()
        for reservation in await self.write(self.registry.reservations):
            if reservation.run_id not in self._ways:
                self._spawn(
                    self._release_when_gone(reservation.run_id, reservation.attempt, reservation.backend)
                )

    def follow(self, run: Run, placement: Placement | None) -> None:
        """Bring a run that has begun to its end."""
        way = RunWay(self, run, placement=placement)
        self._ways[run.run_id] = way
        self._spawn(self._walk(way))

    def followed(self) -> list[Run]:
        """The runs that have begun and are being brought to their ends."""
        return [way.run for way in list(self._ways.values())]

    @property
    def busy(self) -> int:
        """How many runs hold a slot; an ended one holds none while its process is still being stopped."""
        return sum(not way.run.ended for way in self._ways.values())

    @property
    def slots(self) -> int:
        """How many runs may be in progress for the registry; those that are left alone hold none of ours."""
        return self.config.model_training.max_concurrent_runs + len(self.reconciling.left)

    @property
    def has_free_slot(self) -> bool:
        """Whether one more run may begin."""
        return self.busy < self.config.model_training.max_concurrent_runs

    async def _walk(self, way: RunWay) -> None:
        run_id = way.run.run_id
        try:
            await way.walk()
        except Exception:
            if not self.stopping:
                logger.exception("run %s: its end could not be recorded", run_id)
        finally:
            if self._ways.get(run_id) is way:  # a run that is on offer again may be in other hands by now
                del self._ways[run_id]
            if way.run.state == State.SUCCESS:
                self._spawn(self._guarded(self._prune, "old runs could not be pruned"))
            self._spawn(self._release_when_gone(run_id, way.run.attempt, way.run.backend))
            self._spawn(self._keep_spare())
            self.wake()

    def wake(self) -> None:
        """A run may have ended: a slot or a GPU may be free, and the end may have to be told."""
        self._wake.set()
        if self.notifier is not None:
            self.notifier.wake()

    async def _release_when_gone(self, run_id: str, attempt: int, backend: str) -> None:
        """Give the run's GPUs back once its process is known to be gone, or must be."""
        deadline = time.monotonic() + self._held_at_most_s(backend)
        while not self.stopping and time.monotonic() < deadline:
            if not await self._may_be_alive(run_id, backend):
                break
            await asyncio.sleep(RELEASE_POLL_S)
        if not self.stopping:
            await self.write_surely(self.registry.release, run_id, attempt)
            self.wake()

    def _held_at_most_s(self, backend: str) -> float:
        """How long a process of an ended run may live on a backend, whatever becomes of who follows it."""
        training = self.config.model_training
        alone_s = lost_after_s(self.config, backend) if backend in training.backends else training.survive_s
        return alone_s + training.grace_seconds + 10.0

    async def _may_be_alive(self, run_id: str, backend: str) -> bool:
        """Whether a process of the run may live; True where that cannot be told."""
        try:
            return await asyncio.to_thread(self.backend(backend).alive, self.run_folder(run_id))
        except Exception as error:  # noqa: BLE001 - whatever it is, the GPU must not be given away
            logger.warning("run %s: whether its process lives cannot be told: %s", run_id, error)
            return True

    def worker_ended(self) -> None:
        """The worker of a run that is being finished has gone: that of the next one can be made ready."""
        self._spawn(self._keep_spare())

    async def _keep_spare(self) -> None:
        """Have a spare worker ready while no worker is at work; without one a run starts cold."""
        if not self.keep_spare:
            return
        async with self._spare_lock:
            try:
                if not self.stopping and await self._spare_is_wanted():
                    await asyncio.to_thread(self.spare.ensure)
            except (OSError, PotatoRayError, sqlite3.OperationalError) as error:
                logger.warning("no spare worker was started: %s", error)

    async def _spare_is_wanted(self) -> bool:
        """Whether a run may take one soon, and no worker holds the machine's memory meanwhile."""
        states = {way.run.state for way in self._ways.values()}
        if states & {State.RUNNING, State.EVALUATING}:
            return False
        # Its start would slow the finish down that somebody waits for; a run that waits is worth it.
        return State.FINISHING not in states or bool(await self.write(self.registry.queued))


def _is_restarted() -> bool:
    """Whether Ray has started this actor again after its process was lost."""
    return ray.is_initialized() and bool(ray.get_runtime_context().was_current_actor_reconstructed)
