"""The way of one run: build the bundle, execute on the backend, finish.

A RunWay may begin in the middle: after a restart the registry says how far its run had come.
"""

from __future__ import annotations

import asyncio
import logging
import shutil
import socket
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray
import ray.exceptions

from potato_ray.actors import tasks
from potato_ray.actors.embedded import gpu_resource
from potato_ray.backends.base import Job, Outcome, Placement
from potato_ray.bundle.builder import BuildReport, BundleRequest
from potato_ray.bundle.comparison import split_changes
from potato_ray.bundle.reading import read_manifest
from potato_ray.errors import Cancelled, PotatoRayError, RunFailed
from potato_ray.job.folder import JobFolder, write_json
from potato_ray.job.spec import JobSpec, Limits
from potato_ray.project.schemes import Scheme
from potato_ray.registry.runs import Run
from potato_ray.registry.states import ENDED, State
from potato_ray.run_log import write_log
from potato_ray.starting import plan_start
from potato_ray.trainers.base import SchemeSpec
from potato_ray.trainers.registry import spec_name
from potato_ray.writeback import Publication

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController

logger = logging.getLogger(__name__)

BUILD_STOPS_WITHIN_S = 0.8
MAX_SUPERVISORS = 5
MAX_FINISHES = 3


class RunWay:
    """One attempt of one run, from the queue to its end. Lives in the controller."""

    def __init__(self, controller: RunController, run: Run, placement: Placement | None) -> None:
        self.controller = controller
        self.run = run
        self.placement = placement
        self.job = JobFolder(controller.run_folder(run.run_id))
        self.cancelled = run.cancel_requested_at is not None
        self._cancel_asked = asyncio.Event()
        self._let_go = asyncio.Event()
        if self.cancelled:
            self._cancel_asked.set()

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
            if self.run.state == State.BUILDING:
                await self._build()
            outcome = await self._execute()
            if outcome is not None:
                await self._end_as(outcome)
        except Cancelled:
            await self._end(State.CANCELLED)
        except PotatoRayError as error:
            await self._fail(error)
        except asyncio.CancelledError:
            raise
        except Exception:
            logger.exception("run %s failed unexpectedly", self.run.run_id)
            await self._fail(
                RunFailed(
                    "The run failed because of an unexpected error of the server.",
                    next_step="Look at the server's log, which holds the details.",
                )
            )

    async def heard(self, events: Sequence[Mapping[str, Any]], notes: Sequence[Mapping[str, Any]]) -> None:
        """Events and notes of the backend that have just been recorded."""
        for note in notes:
            await self._note(note)
        if any(e.get("event") == "status" and e.get("phase") == "predicting" for e in events):
            await self._change_if(State.RUNNING, State.EVALUATING)

    # --- building ---------------------------------------------------------------------------------

    async def _build(self) -> None:
        self.job.path.mkdir(parents=True, exist_ok=True)
        self.job.cancel.unlink(missing_ok=True)
        await asyncio.to_thread(shutil.rmtree, self.job.bundle, ignore_errors=True)
        await self._step("building the bundle")
        request = await self.controller.write_surely(self._bundle_request)
        reference = tasks.build_bundle.remote(
            ray.get_runtime_context().current_actor,
            self.run.run_id,
            self.run.attempt,
            request,
            str(self.job.path),
        )
        report: BuildReport = await self._result_of(reference)
        await self._keep_split(report)
        for warning in await asyncio.to_thread(self._split_changes):
            await self._note({"kind": "log", "level": "warning", "message": warning})
        self._write_spec(report)
        if self.cancelled:
            raise Cancelled("The run was cancelled before its worker started.")
        await self._change(State.RUNNING, bundle_digest=report.manifest["digest"], **self._place())

    def _place(self) -> dict[str, Any]:
        folder = self.job.artifacts.relative_to(self.controller.config.task_dir)
        return {"artifact_dir": str(folder), "host": socket.gethostname()}

    def _bundle_request(self) -> BundleRequest:
        return BundleRequest.from_config(
            self.controller.config,
            schemas=tuple(self.run.schemas),
            forced_train=self.controller.registry.forced_train(),
        )

    async def _result_of(self, reference: Any) -> BuildReport:
        """The build's report; a cancelled build is given a moment to stop by itself, then killed."""
        build = asyncio.ensure_future(_answer(reference))
        cancel = asyncio.ensure_future(self._cancel_asked.wait())
        await asyncio.wait({build, cancel}, return_when=asyncio.FIRST_COMPLETED)
        cancel.cancel()
        if not build.done():
            self.job.request_cancel("cancelled", 0.0)
            done, _ = await asyncio.wait({build}, timeout=BUILD_STOPS_WITHIN_S)
            if not done:
                ray.cancel(reference, force=True)
            build.add_done_callback(_read)
            raise Cancelled("The run was cancelled while its bundle was built.")
        try:
            return build.result()  # type: ignore[no-any-return]
        except ray.exceptions.RayError as error:
            raise _task_failure(error, "bundle_failed", "building the bundle") from error

    async def _keep_split(self, report: BuildReport) -> None:
        for split, items in report.splits.items():
            await self.controller.write_surely(
                self.controller.registry.record_items, self.run.run_id, self.run.attempt, split, items
            )
        for warning in report.warnings:
            await self._note({"kind": "log", "level": "warning", "message": warning})

    def _split_changes(self) -> list[str]:
        """What moved items between splits since the newest earlier run whose bundle is still there."""
        for run_id in self.controller.reader.earlier_bundles(self.run.run_id):
            try:
                before = read_manifest(JobFolder(self.controller.run_folder(run_id)).bundle)
                return split_changes(before, read_manifest(self.job.bundle), run_id)
            except (OSError, ValueError):
                continue
        return []

    def _write_spec(self, report: BuildReport) -> None:
        training = self.controller.config.model_training
        plan = plan_start(self.controller.config, self._request())
        placement = self.placement or Placement(backend=self.run.backend, device="cpu")
        spec = JobSpec(
            run_id=self.run.run_id,
            attempt=self.run.attempt,
            trainer=spec_name(plan.trainer),
            schemes=tuple(_scheme_spec(scheme, report.manifest) for scheme in plan.schemes),
            params=dict(plan.params),
            seed=training.split_seed,
            limits=Limits(
                max_wall_s=training.max_wall_seconds,
                max_ram_mb=training.max_ram_mb,
                grace_s=training.grace_seconds,
                lost_after_s=training.survive_s,
                num_threads=training.num_threads,
                device=placement.device,
                gpu_uuids=placement.gpu_uuids,
            ),
        )
        write_json(self.job.spec, spec.as_json())

    def _request(self) -> Any:
        from potato_ray.actors.controller import request_of

        return request_of(self.run)

    # --- executing --------------------------------------------------------------------------------

    async def _execute(self) -> Outcome | None:
        """The outcome of the worker, or None when the controller stops before it ends."""
        if self.run.state == State.FINISHING:
            return Outcome(status="success", result=self.run.result or {})
        for _ in range(MAX_SUPERVISORS):
            reference = self._supervise()
            answer = asyncio.ensure_future(_answer(reference))
            leaving = asyncio.ensure_future(self._let_go.wait())
            await asyncio.wait({answer, leaving}, return_when=asyncio.FIRST_COMPLETED)
            leaving.cancel()
            if not answer.done():
                answer.add_done_callback(_read)
                return None
            try:
                return answer.result()  # type: ignore[no-any-return]
            except ray.exceptions.RayTaskError as error:
                raise _task_failure(error, "backend_failed", "following the worker") from error
            except ray.exceptions.RayError as error:
                # The supervising process died; the launcher lives on, and another one follows it.
                logger.warning("run %s: its supervisor was lost (%s)", self.run.run_id, type(error).__name__)
        raise RunFailed(
            f"The process that follows the run was lost {MAX_SUPERVISORS} times.",
            next_step="Look at the machine's memory and at the server's log, then start the run again.",
        )

    def _supervise(self) -> Any:
        slots = self.placement.slots if self.placement else ()
        resources = {gpu_resource(self.run.backend, slot): 1.0 for slot in slots}
        job = Job(
            run_id=self.run.run_id,
            attempt=self.run.attempt,
            folder=self.job.path,
            first_seq=self.controller.reader.last_seq(self.run.run_id),
        )
        return tasks.supervise_run.options(resources=resources).remote(
            ray.get_runtime_context().current_actor,
            self.controller.config,
            self.run.backend,
            job,
            self.controller.spare.address,
        )

    # --- the end ----------------------------------------------------------------------------------

    async def _end_as(self, outcome: Outcome) -> None:
        if outcome.status == "success":
            await self._finish(outcome)
        elif outcome.status == "cancelled":
            await self._end(State.CANCELLED, peak_rss_mb=outcome.peak_rss_mb)
        elif outcome.status == "interrupted":
            await self._end(State.INTERRUPTED, **_reason(outcome))
        elif outcome.status != "stale":
            await self._end(State.ERROR, **_reason(outcome), peak_rss_mb=outcome.peak_rss_mb)

    async def _finish(self, outcome: Outcome) -> None:
        if self.run.state != State.FINISHING:
            await self._change(
                State.FINISHING,
                result=dict(outcome.result),
                model_version=str(outcome.result.get("model_version") or ""),
                peak_rss_mb=outcome.peak_rss_mb,
            )
        await self._step("scoring on the held-out items")
        finished = await self._scored()
        await self._step("writing predictions back")
        report = await self._published(finished["scores"])
        await self._end(State.SUCCESS, scores=finished["scores"], writeback=report)
        await self.controller.write_surely(
            self.controller.registry.prune, self.controller.config.model_training.retain_runs
        )

    async def _scored(self) -> dict[str, Any]:
        previous = await asyncio.to_thread(self.controller.reader.previous_score, self.run.run_id)
        same_splits = not await asyncio.to_thread(self._split_changes)
        for attempt in range(1, MAX_FINISHES + 1):
            try:
                return dict(
                    await _answer(
                        tasks.finish_run.remote(
                            ray.get_runtime_context().current_actor,
                            self.run.run_id,
                            self.run.attempt,
                            str(self.job.path),
                            self.run.trainer,
                            self.run.split_seed,
                            previous,
                            same_splits,
                            self.controller.config.model_training.writeback.score_blind_only,
                        )
                    )
                )
            except ray.exceptions.RayTaskError as error:
                raise _task_failure(error, "backend_failed", "scoring the run") from error
            except ray.exceptions.RayError:
                if attempt == MAX_FINISHES:
                    raise
        raise AssertionError("unreachable: the loop returns or raises")

    async def _published(self, scores: Mapping[str, Any]) -> dict[str, Any]:
        publication = await self.controller.write_surely(
            Publication,
            self.controller.registry,
            self.run.run_id,
            self.run.attempt,
            self.controller.writeback_settings(),
            scores.get("headline"),
        )
        # One transaction a call, so that other runs' writes come in between.
        while not await self.controller.write_surely(publication.step):
            pass
        report = publication.report()
        for warning in report.warnings:
            await self._note({"kind": "log", "level": "warning", "message": warning})
        return report.as_json()

    async def _fail(self, error: PotatoRayError) -> None:
        await self._end(
            State.ERROR,
            error=error.message,
            error_code=error.code,
            error_evidence=error.evidence,
            error_next_step=error.next_step,
        )

    async def _end(self, state: State, **fields: Any) -> None:
        if self.run.state not in ENDED:
            await self._change(state, **fields)
            await asyncio.to_thread(self._keep_log)

    def _keep_log(self) -> None:
        """Leave the log in the run's folder; the registry, which has it too, forgets old runs."""
        try:
            write_log(self.controller.reader, self.run.run_id, self.job.path / "run.log")
        except OSError as error:
            logger.warning("run %s: its log could not be written: %s", self.run.run_id, error)

    # --- the registry -----------------------------------------------------------------------------

    async def _change(self, state: State, **fields: Any) -> None:
        self.run = await self.controller.write_surely(
            self.controller.registry.transition, self.run.run_id, self.run.attempt, state, **fields
        )

    async def _change_if(self, old: State, new: State) -> None:
        if self.run.state == old:
            await self._change(new)

    async def _step(self, step: str) -> None:
        await self._note({"kind": "step", "step": step})

    async def _note(self, note: Mapping[str, Any]) -> None:
        kind = note.get("kind")
        if kind == "ended":
            # The run is over; its process is still being stopped and keeps its GPU.
            await self._end(
                State.CANCELLED if note.get("error_code") == "cancelled" else State.ERROR,
                error=note.get("message", ""),
                error_code=note.get("error_code", ""),
                error_next_step=note.get("next_step", ""),
            )
            return
        event = (
            {"event": "status", "step": note.get("step", "")} if kind == "step" else {"event": "log", **note}
        )
        await self.controller.write_surely(
            self.controller.registry.record_note, self.run.run_id, self.run.attempt, event
        )


async def _answer(reference: Any) -> Any:
    return await reference


def _read(future: asyncio.Future[Any]) -> None:
    """Take a result that nobody waits for any more, so that asyncio does not complain of it."""
    if not future.cancelled():
        future.exception()


def _scheme_spec(scheme: Scheme, manifest: Mapping[str, Any]) -> SchemeSpec:
    return SchemeSpec(
        name=scheme.name,
        annotation_type=scheme.annotation_type,
        kind=str(scheme.kind),
        labels=tuple(manifest["labels"].get(scheme.name, ())),
        options=dict(scheme.options),
    )


def _reason(outcome: Outcome) -> dict[str, str]:
    return {
        "error": outcome.message,
        "error_code": outcome.error_code,
        "error_evidence": outcome.evidence,
        "error_next_step": outcome.next_step,
    }


def _task_failure(error: Exception, code: str, doing: str) -> PotatoRayError:
    """The error of ours inside a Ray error, or one that says what was being done."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, PotatoRayError):
        return cause
    kind = type(cause or error).__name__
    logger.error("%s failed: %s", doing, error)
    return RunFailed(
        f"The run failed while {doing}.",
        code=code,
        evidence=f"{kind}: {str(cause or error).splitlines()[0] if str(cause or error) else kind}",
        next_step="Look at the server's log, which holds the details.",
    )
