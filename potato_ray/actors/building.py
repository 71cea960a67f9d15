"""The first part of a run's way: its bundle is built, and its job folder is made ready."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import ray

from potato_ray.actors import tasks
from potato_ray.actors.failures import answer_of, forget
from potato_ray.actors.task_tries import TaskTries
from potato_ray.backends.base import Placement
from potato_ray.backends.grants import gives_cards
from potato_ray.backends.making import environment, lost_after_s, num_threads
from potato_ray.bundle.comparison import split_changes
from potato_ray.bundle.reading import items_of, read_manifest
from potato_ray.bundle.report import BuildReport
from potato_ray.bundle.request import BundleRequest
from potato_ray.errors import Cancelled
from potato_ray.job.folder import JobFolder, write_json
from potato_ray.job.spec import JobSpec, Limits
from potato_ray.project.schemes import Scheme
from potato_ray.registry.runs import Run
from potato_ray.starting import plan_start, request_of
from potato_ray.trainers.base import SchemeSpec
from potato_ray.trainers.registry import package_of, spec_name

if TYPE_CHECKING:
    from potato_ray.actors.controller import RunController

BUILD_STOPS_WITHIN_S = 0.8
ITEMS_AT_ONCE = 10_000


class Building:
    """Builds the bundle of one attempt of a run, and writes its spec."""

    def __init__(self, controller: RunController, run: Run, placement: Placement | None) -> None:
        self.controller = controller
        self.run = run
        self.placement = placement or Placement(backend=run.backend, device="cpu")
        self.job = JobFolder(controller.run_folder(run.run_id))

    async def build(self, cancel_asked: asyncio.Event) -> BuildReport:
        """The report of the build. Raises Cancelled soon after `cancel_asked`, RunFailed."""
        if self.run.attempt > 1:
            await self.controller.write_surely(self.controller.registry.forget_attempt, self.run.run_id)
        report = await asyncio.to_thread(self._kept)
        if report is None:
            await asyncio.to_thread(self._clear_folder)
            request = await self.controller.write_surely(self._request)
            report = await self._built(request, cancel_asked)
        await asyncio.to_thread(self._write_spec, report)
        return report

    def _kept(self) -> BuildReport | None:
        """The bundle of an earlier attempt whose worker never started; None where there is none."""
        if not self.run.bundle_digest:
            return None
        try:
            manifest = read_manifest(self.job.bundle)
            if manifest["digest"] != self.run.bundle_digest:
                return None
            return BuildReport(manifest, tuple(manifest["stats"]["warnings"]), items_of(self.job.bundle))
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _clear_folder(self) -> None:
        """Make the run's folder, or clear it of what a build that was cut off has left."""
        self.job.path.mkdir(parents=True, exist_ok=True)
        self.job.cancel.unlink(missing_ok=True)
        shutil.rmtree(self.job.bundle, ignore_errors=True)

    def _clear_unfinished(self) -> None:
        for unfinished in self.job.path.glob(f".{self.job.bundle.name}.*"):
            shutil.rmtree(unfinished, ignore_errors=True)

    def _request(self) -> BundleRequest:
        plan = plan_start(self.controller.config, request_of(self.run))
        return BundleRequest.from_config(
            self.controller.config,
            schemas=tuple(self.run.schemas),
            forced_train=self.controller.registry.forced_train(),
            trainer=spec_name(plan.trainer),
            params=plan.params,
        )

    async def _built(self, request: BundleRequest, cancel_asked: asyncio.Event) -> BuildReport:
        """The report of a build; one whose process was lost is made again, from the same request."""

        async def build() -> BuildReport:
            await asyncio.to_thread(self._clear_unfinished)
            reference = tasks.build_bundle.remote(
                ray.get_runtime_context().current_actor,
                self.run.run_id,
                self.run.attempt,
                request,
                str(self.job.path),
            )
            return await self._report(reference, cancel_asked)

        return await TaskTries(self.run.run_id, "building the bundle", "bundle_failed").answer(build)

    async def _report(self, reference: Any, cancel_asked: asyncio.Event) -> BuildReport:
        """The build's report; a cancelled build is given a moment to stop by itself, then killed.

        Raises RayError when the build failed or its process was lost.
        """
        build = asyncio.ensure_future(answer_of(reference))
        cancel = asyncio.ensure_future(cancel_asked.wait())
        await asyncio.wait({build, cancel}, return_when=asyncio.FIRST_COMPLETED)
        cancel.cancel()
        if not build.done():
            await self._stop(reference, build)
            raise Cancelled("The run was cancelled while its bundle was built.")
        report: BuildReport = build.result()
        return report

    async def _stop(self, reference: Any, build: asyncio.Future[Any]) -> None:
        await asyncio.to_thread(self.job.request_cancel, "cancelled", 0.0)
        done, _ = await asyncio.wait({build}, timeout=BUILD_STOPS_WITHIN_S)
        if not done:
            ray.cancel(reference, force=True)
            await asyncio.to_thread(self._clear_unfinished)
        build.add_done_callback(forget)

    async def record_items(self, splits: Mapping[str, Sequence[str]] | None = None) -> None:
        """Record the split of every item; None: as the bundle in the run's folder has them."""
        if splits is None:
            splits = await asyncio.to_thread(items_of, self.job.bundle)
        registry = self.controller.registry
        for split, items in splits.items():
            # In parts, so that commands are answered in between.
            for start in range(0, max(1, len(items)), ITEMS_AT_ONCE):
                part = items[start : start + ITEMS_AT_ONCE]
                await self.controller.write_surely(
                    registry.record_items, self.run.run_id, self.run.attempt, split, part
                )

    def _write_spec(self, report: BuildReport) -> None:
        training = self.controller.config.model_training
        plan = plan_start(self.controller.config, request_of(self.run))
        announced_by = package_of(plan.trainer)
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
                lost_after_s=lost_after_s(self.controller.config, self.run.backend),
                num_threads=num_threads(self.controller.config, self.run.backend),
                device=self.placement.device,
                gpu_uuids=self._gpu_uuids(),
            ),
            env=environment(self.controller.config, self.run.backend),
            trainer_package=announced_by.package if announced_by else "",
        )
        write_json(self.job.spec, spec.as_json())

    def _gpu_uuids(self) -> tuple[str, ...] | None:
        """The cards that the worker sees; None: they are chosen over there, by its agent or by SLURM."""
        ours = gives_cards(self.controller.config, self.run.backend) or self.placement.device == "cpu"
        return self.placement.gpu_uuids if ours else None

    def split_changes(self) -> list[str]:
        """What moved items between splits since the run that this one's score is compared with."""
        previous = self.controller.reader.previous_success(self.run.run_id)
        if previous is None:
            return []
        try:
            before = read_manifest(JobFolder(self.controller.run_folder(previous[0])).bundle)
            return split_changes(before, read_manifest(self.job.bundle), previous[0])
        except (OSError, ValueError):
            return []  # its folder was removed: there is nothing to compare with


def _scheme_spec(scheme: Scheme, manifest: Mapping[str, Any]) -> SchemeSpec:
    return SchemeSpec(
        name=scheme.name,
        annotation_type=scheme.annotation_type,
        kind=str(scheme.kind),
        labels=tuple(manifest["labels"].get(scheme.name, ())),
        options=dict(scheme.options),
    )
