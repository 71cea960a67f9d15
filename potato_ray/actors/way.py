"""The way of one run: build the bundle, execute on the backend, finish.

A RunWay may begin in the middle: after a restart the registry says how far its run had come.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
import sqlite3
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
import ray.exceptions

from potato_ray.actors import tasks
from potato_ray.actors.building import Building
from potato_ray.actors.embedded import gpu_resource
from potato_ray.actors.failures import answer_of, forget, task_failure
from potato_ray.actors.finishing import Finishing
from potato_ray.actors.handing_over import HandingOver
from potato_ray.actors.workers import worker_of
from potato_ray.backends.base import Job, Outcome, Placement
from potato_ray.backends.grants import starts_agents
from potato_ray.errors import Cancelled, PotatoRayError, ProjectUnwritable, RunFailed
from potato_ray.job.folder import JobFolder
from potato_ray.registry.events import AGENT_LOST
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.run_log import write_log

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController

logger = logging.getLogger(__name__)

MAX_SUPERVISORS = 5
MAX_LOST_AGENTS = 5
"""The agent that is the last one to be lost with a run."""
SUPERVISE_AGAIN_AFTER_S = 1.0
CANCEL_OVERDUE_S = 15.0
"""How long after the grace a cancelled run is ended here, whatever the supervising task does."""
CLEAR_UP_S = 120.0
"""The same where the task has to clear up on another machine first."""
BRING_HOME_S = 3600.0
"""And where it has told the end: a checkpoint is on its way, and nobody waits for it but the GPU."""


class RunWay:
    """One attempt of one run, from the queue to its end. Lives in the controller."""

    def __init__(self, controller: RunController, run: Run, placement: Placement | None) -> None:
        self.controller = controller
        self.run = run
        self.placement = placement
        self.job = JobFolder(controller.run_folder(run.run_id))
        self.building = Building(controller, run, placement)
        self.finishing = Finishing(controller, run)
        self.handing = HandingOver(controller, run) if goes_to_an_agent(controller, run) else None
        self.cancelled = False
        self.listening = asyncio.Lock()
        self._newest: tuple[str, int, int] | None = None
        self._recording: asyncio.Future[None] | None = None
        self._cancel_asked = asyncio.Event()
        self._let_go = asyncio.Event()

    def cancel(self) -> None:
        """Somebody asked for the end of this run; it is durable already."""
        self.cancelled = True
        self._cancel_asked.set()

    def let_go(self) -> None:
        """The controller stops: leave the run as it is, for the next one to take up."""
        self._let_go.set()

    async def walk(self) -> None:
        """Bring the run to its end, whatever happens on the way."""
        try:
            await self._hear_of_a_cancel()
            if self.run.state == State.BUILDING:
                await self._build()
            outcome = await self._execute()
            if outcome is not None:
                await self._end_as(outcome)
        except Cancelled:
            await self._end(State.CANCELLED)
        except PotatoRayError as error:
            await self._fail(error)
        except OSError as failure:
            await self._fail(_unwritable(failure))
        except Exception:
            logger.exception("run %s failed unexpectedly", self.run.run_id)
            await self._fail(
                RunFailed(
                    "The run failed because of an unexpected error of the server.",
                    next_step="Look at the server's log, which holds the details.",
                )
            )
        finally:
            self._record_no_more()

    async def _hear_of_a_cancel(self) -> None:
        """A cancel that came while this way was made found nobody to tell."""
        row = await self.controller.write_surely(self.controller.registry.run, self.run.run_id)
        if row.cancel_requested_at is not None:
            self.cancel()

    async def heard(self, events: Sequence[Mapping[str, Any]], notes: Sequence[Mapping[str, Any]]) -> None:
        """Events and notes of the backend that have just been recorded."""
        for note in notes:
            if note.get("kind") == "ended":
                await self._ended_early(note)
            elif note.get("kind") in ("late", "heard"):
                await self._step_over(note.get("step"), str(note.get("message", "")))
            else:
                await self._note(note)
        if events and self.run.started_at is None and not self.run.ended:
            await self._name_worker(events)
        if any(e.get("event") == "status" and e.get("phase") == "predicting" for e in events):
            await self._change_if(State.RUNNING, State.EVALUATING)

    async def _name_worker(self, events: Sequence[Mapping[str, Any]]) -> None:
        """Record who trains, and since when; the worker has said its first words."""
        if worker := await asyncio.to_thread(worker_of, self.job, self.run, events):
            self.run = await self.controller.write_surely(
                self.controller.registry.update, self.run.run_id, self.run.attempt, **worker
            )

    # --- building ---------------------------------------------------------------------------------

    async def _build(self) -> None:
        if self.placement is not None:
            if self.placement.step:
                await self._log(self.placement.step)
            await self._warn(self.placement.warnings)
        await self._step("building the bundle")
        report = await self.building.build(self._cancel_asked)
        # Beside the training: nothing looks at it before the run is finished.
        self._recording = asyncio.ensure_future(self.building.record_items(report.splits))
        await self._warn(report.warnings)
        await self._warn(await asyncio.to_thread(self.building.split_changes))
        if self.cancelled:
            raise Cancelled("The run was cancelled before its worker started.")
        await self._change(
            State.RUNNING,
            step=self._first_step(),
            current=0.0,
            total=0.0,
            bundle_digest=report.manifest["digest"],
            artifact_dir=os.path.relpath(self.job.artifacts, self.controller.config.task_dir),
            host=(self.placement.host if self.placement else "") or socket.gethostname(),
        )

    def _first_step(self) -> str:
        if self.handing is None:
            return "starting the worker"
        if self.controller.desk.serves(self.run.backend):
            return "waiting for the agent to fetch the job"
        return f"preparing the job for {self.run.backend}"

    # --- executing --------------------------------------------------------------------------------

    async def _execute(self) -> Outcome | None:
        """The outcome of the worker, or None when the controller stops before it ends."""
        if self.run.state == State.FINISHING:
            return Outcome(status="success", result=self.run.result or {})
        if self.handing is not None:
            await self.handing.hand_over(lambda: self.cancelled)
        lost, heard = 0, -1
        while lost < MAX_SUPERVISORS:
            seq = await asyncio.to_thread(self.controller.reader.last_seq, self.run.run_id)
            lost, heard = (lost, heard) if seq == heard else (0, seq)
            try:
                return await self._supervised(self._supervise(seq))
            except ray.exceptions.RayTaskError as error:
                raise task_failure(error, "backend_failed", "following the worker") from error
            except ray.exceptions.RayError as error:
                # The supervising process died; the launcher lives on, and another one follows it.
                lost += 1
                logger.warning("run %s: its supervisor was lost (%s)", self.run.run_id, type(error).__name__)
                await asyncio.sleep(SUPERVISE_AGAIN_AFTER_S)
        raise RunFailed(
            f"The process that follows the run was lost {MAX_SUPERVISORS} times in a row.",
            evidence="Its worker said nothing in between.",
            next_step="Look at the machine's memory and at the server's log, then start the run again.",
        )

    def _supervise(self, first_seq: int) -> Any:
        slots = self.placement.slots if self.placement else ()
        resources = {gpu_resource(self.run.backend, slot): 1.0 for slot in slots}
        job = Job(self.run.run_id, self.run.attempt, self.job.path, first_seq)
        return tasks.supervise_run.options(resources=resources).remote(
            ray.get_runtime_context().current_actor,
            self.controller.config,
            self.run.backend,
            job,
            self.controller.spare.address,
        )

    async def _supervised(self, reference: Any) -> Outcome | None:
        """What the supervising task answers; None when we stop, cancelled when a cancel is overdue."""
        answer = asyncio.ensure_future(answer_of(reference))
        leaving = asyncio.ensure_future(self._let_go.wait())
        overdue = asyncio.ensure_future(self._cancel_overdue())
        await asyncio.wait({answer, leaving, overdue}, return_when=asyncio.FIRST_COMPLETED)
        leaving.cancel()
        overdue.cancel()
        if answer.done():
            outcome: Outcome = answer.result()
            return outcome
        answer.add_done_callback(forget)
        if self._let_go.is_set():
            return None
        ray.cancel(reference, force=True)
        return Outcome(status="cancelled")

    async def _cancel_overdue(self) -> None:
        """Returns when a cancel should have been carried out by now; asks the launcher itself first."""
        await self._cancel_asked.wait()
        grace_s = float(self.controller.config.model_training.grace_seconds)
        await asyncio.to_thread(self._ask_to_stop)
        is_elsewhere = starts_agents(self.controller.config, self.run.backend)
        await asyncio.sleep(grace_s + (CLEAR_UP_S if is_elsewhere else CANCEL_OVERDUE_S))
        if is_elsewhere and self.run.ended:
            await asyncio.sleep(BRING_HOME_S)

    # --- the end ----------------------------------------------------------------------------------

    async def _end_as(self, outcome: Outcome) -> None:
        if self.run.ended:
            await self._complete(outcome)
        elif outcome.status == "success":
            await self._finish(outcome)
        elif outcome.status == "cancelled":
            await self._end(State.CANCELLED, peak_rss_mb=outcome.peak_rss_mb)
        elif outcome.status == "interrupted":
            await self._end(State.INTERRUPTED, **_reason(outcome))
        elif outcome.status == "unstarted" and await self._may_be_offered_again():
            await self._offer_again(outcome)
        elif outcome.status != "stale":
            await self._end(State.ERROR, **_reason(outcome), peak_rss_mb=outcome.peak_rss_mb)

    async def _may_be_offered_again(self) -> bool:
        """An agent that is lost takes nothing with it before it trains; but a run must end some time."""
        if not self.controller.desk.serves(self.run.backend):
            return False
        lost = await asyncio.to_thread(self.controller.reader.agents_lost, self.run.run_id)
        return lost + 1 < MAX_LOST_AGENTS

    async def _offer_again(self, outcome: Outcome) -> None:
        """Let another agent have the run; its bundle stays."""
        self._record_no_more()
        words = f"{outcome.message} Nothing was heard of a worker there: the run is on offer again."
        await self._note({"kind": "log", "level": "info", "message": words, AGENT_LOST: True})
        if self.handing is not None:
            await self.handing.take_back()  # first, as the run may be claimed as soon as it is on offer
        await self._change(State.OFFERED)
        if self.run.ended:
            await self._settle()  # it was cancelled meanwhile

    async def _ended_early(self, note: Mapping[str, Any]) -> None:
        """The run is over; its process is still being stopped and keeps its GPU."""
        await self._end(
            State.CANCELLED if note.get("error_code") == "cancelled" else State.ERROR,
            error=note.get("message", ""),
            error_code=note.get("error_code", ""),
            error_evidence=note.get("evidence", ""),
            error_next_step=note.get("next_step", ""),
        )

    async def _complete(self, outcome: Outcome) -> None:
        """What is known only now of a run that ended before its process was gone."""
        fields: dict[str, Any] = {"peak_rss_mb": outcome.peak_rss_mb}
        if outcome.evidence and not self.run.error_evidence and self.run.state == State.ERROR:
            fields["error_evidence"] = outcome.evidence
        self.run = await self.controller.write_surely(
            self.controller.registry.update, self.run.run_id, self.run.attempt, **fields
        )

    async def _recorded(self) -> None:
        """See the split of every item recorded; a run that was taken up may have come no further."""
        if self._recording is None:
            if None not in (self.run.n_train, self.run.n_val, self.run.n_test, self.run.n_unlabeled):
                return
            self._recording = asyncio.ensure_future(self.building.record_items())
        await self._recording

    def _record_no_more(self) -> None:
        """The run has ended, or the next controller takes it up."""
        if self._recording is not None:
            self._recording.cancel()
            self._recording.add_done_callback(forget)

    async def _finish(self, outcome: Outcome) -> None:
        if self.run.state != State.FINISHING:
            await self._recorded()
            await self._change(
                State.FINISHING,
                result=dict(outcome.result),
                model_version=str(outcome.result.get("model_version") or ""),
                peak_rss_mb=outcome.peak_rss_mb,
                artifact_uri=outcome.artifact_uri,
            )
        # Also of a run that was taken up here: whoever had it before may have come no further.
        if self.run.cancel_requested_at is not None:
            raise Cancelled("The run was cancelled just as its worker finished.")
        self.controller.worker_ended()
        await self._step("scoring on the held-out items")
        same_splits = not await asyncio.to_thread(self.building.split_changes)
        finished = await self.finishing.scored(same_splits)
        await self._warn(finished["warnings"])
        await self._step("writing predictions back")
        report = await self.finishing.published(finished["scores"])
        await self._warn(report.warnings)
        await self._end(State.SUCCESS, scores=finished["scores"], writeback=report.as_json())

    async def _fail(self, error: PotatoRayError) -> None:
        await asyncio.to_thread(self._stop_what_runs)
        await self._end(
            State.ERROR,
            error=error.message,
            error_code=error.code,
            error_evidence=error.evidence,
            error_next_step=error.next_step,
        )

    def _stop_what_runs(self) -> None:
        """Leave no worker behind a run that is given up."""
        if self.job.process.exists() and not self.job.exit.exists():
            self._ask_to_stop()

    def _ask_to_stop(self) -> None:
        grace_s = float(self.controller.config.model_training.grace_seconds)
        try:
            self.job.request_cancel("cancelled", grace_s)
        except OSError as failure:
            # The supervisor asks as well; without one, the launcher ends its worker when its lease is over.
            logger.warning("run %s: its cancel was not written: %s", self.run.run_id, failure)

    async def _end(self, state: State, **fields: Any) -> None:
        if not self.run.ended:
            if state == State.CANCELLED:
                self._record_no_more()
            elif self._recording is not None:
                await asyncio.wait({self._recording})  # people want to see the sizes
            # A worker that ended before it said a word was there all the same.
            unheard = self.run.started_at is None
            worker = await asyncio.to_thread(worker_of, self.job, self.run) if unheard else {}
            await self._change(state, **worker, **fields)
            await self._settle()

    async def _settle(self) -> None:
        """What is left to do once the run has ended."""
        self.controller.wake()
        if self.run.state != State.SUCCESS:
            await self.controller.write_steps(self._drop_some_predictions)
        await asyncio.to_thread(self._keep_log)
        if self.handing is not None:
            await self.handing.clear_up()

    def _drop_some_predictions(self) -> bool:
        """Of a run that failed while it was finished; True when none are left."""
        return self.controller.registry.withdraw_step(self.run.run_id) is None

    def _keep_log(self) -> None:
        """Leave the log in the run's folder; the registry, which has it too, forgets old runs."""
        try:
            write_log(self.controller.reader, self.run.run_id, self.job.path / "run.log")
        except (OSError, PotatoRayError, sqlite3.Error) as error:
            logger.warning("run %s: its log could not be written: %s", self.run.run_id, error)

    # --- the registry -----------------------------------------------------------------------------

    async def note_progress(self, step: str, current: int, total: int) -> None:
        """Set step line and progress. Of those that come while one is written, only the newest is kept."""
        if self._newest is not None:
            self._newest = (step, current, total)
            return
        self._newest = noted = (step, current, total)
        try:
            while True:
                with contextlib.suppress(PotatoRayError):  # locked, or a full disk: the next may be written
                    await self.controller.write(
                        self.controller.registry.note_progress, self.run.run_id, self.run.attempt, *noted
                    )
                if self._newest is noted:
                    return
                noted = self._newest
        finally:
            self._newest = None

    async def _change(self, state: State, **fields: Any) -> None:
        self.run = await self.controller.write_surely(
            self.controller.registry.transition, self.run.run_id, self.run.attempt, state, **fields
        )

    async def _change_if(self, old: State, new: State) -> None:
        if self.run.state == old:
            await self._change(new)

    async def _step(self, step: str) -> None:
        await self._note({"kind": "step", "step": step})

    async def _step_over(self, step: str | None, message: str) -> None:
        """Put a step over the run's own line, None: take it off again, which `message` tells the log."""
        await self.controller.write_surely(
            self.controller.registry.put_step_over, self.run.run_id, self.run.attempt, step, message
        )

    async def _log(self, message: str, level: str = "info") -> None:
        await self._note({"kind": "log", "level": level, "message": message})

    async def _warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            await self._log(warning, "warning")

    async def _note(self, note: Mapping[str, Any]) -> None:
        """Record a step or a line of the log."""
        if note.get("kind") == "step":
            event: Mapping[str, Any] = {"event": "status", "step": note.get("step", "")}
        else:
            event = {"event": "log", **note}
        await self.controller.write_surely(
            self.controller.registry.record_note, self.run.run_id, self.run.attempt, event
        )


def is_plain(note: Mapping[str, Any]) -> bool:
    """Whether a backend's note is a step or a line of the log, and moves nothing else."""
    return note.get("kind") in ("step", "log")


def goes_to_an_agent(controller: RunController, run: Run) -> bool:
    """Whether an agent trains: one that asks for work, or one that is started for this run."""
    return controller.desk.serves(run.backend) or starts_agents(controller.config, run.backend)


def _unwritable(failure: OSError) -> RunFailed:
    told = ProjectUnwritable.because(failure, "The run's folder")
    return RunFailed(told.message, evidence=told.evidence, next_step=told.next_step)


def _reason(outcome: Outcome) -> dict[str, str]:
    return {
        "error": outcome.message,
        "error_code": outcome.error_code,
        "error_evidence": outcome.evidence,
        "error_next_step": outcome.next_step,
    }
