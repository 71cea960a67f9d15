"""The Ray tasks of a run: build its bundle, supervise its worker, finish it.

None is retried by Ray (max_retries=0): the controller submits a task again where that is safe, and the
controller alone writes the registry. Numpy and what stands on it are imported when a task runs: the
controller and the server load this module too.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import ray
import ray.exceptions

from potato_ray.actors.embedded import restore_home
from potato_ray.agent_place import place_of, trouble_of
from potato_ray.backends.base import Directive, Job, Outcome
from potato_ray.backends.grants import Grant, Means, shares_login
from potato_ray.backends.making import make_backend
from potato_ray.bundle.report import BuildReport
from potato_ray.bundle.request import BundleRequest
from potato_ray.config.models import ProjectConfig
from potato_ray.job.collection import collect_seldom, pass_over_what_is_loaded
from potato_ray.job.folder import JobFolder, write_json
from potato_ray.trainers.registry import offered_trainer

if TYPE_CHECKING:
    from potato_ray.actors.adapter_login import AdapterLogin
    from potato_ray.scoring.report import RunScores

logger = logging.getLogger(__name__)

CALL_TIMEOUT_S = 30.0
AWAY_POLL_S = 0.2
PROGRESS_EVERY_S = 0.1


class Messenger:
    """Calls the controller from a task, and rides out its restart.

    Only calls that may be repeated without harm go through it: Ray restarts a killed controller in
    about two seconds, and a call in flight may or may not have been executed. A controller that is there
    may need any time for its answer, for instance until its disk has space again.
    """

    def __init__(self, controller: Any, patience_s: float) -> None:
        self.controller = controller
        self.patience_s = patience_s

    def call(self, method: str, *args: Any) -> Any:
        """The method's answer. Raises Ray's error when the controller has been away for `patience_s`."""
        deadline = time.monotonic() + self.patience_s
        reference = None
        while True:
            try:
                reference = reference or getattr(self.controller, method).remote(*args)
                return ray.get(reference, timeout=CALL_TIMEOUT_S)
            except ray.exceptions.GetTimeoutError:
                # It is there, and waits for something itself; sent again, calls would pile up.
                deadline = time.monotonic() + self.patience_s
            except ray.exceptions.RayActorError:
                if time.monotonic() > deadline:
                    raise
                reference = None
                time.sleep(AWAY_POLL_S)


class ControllerSink:
    """The event sink of one supervised run: passes batches on and brings the directive back."""

    def __init__(self, messenger: Messenger, job: Job) -> None:
        self.messenger = messenger
        self.job = job

    def __call__(
        self, events: Sequence[Mapping[str, Any]], first_seq: int, notes: Sequence[Mapping[str, Any]] = ()
    ) -> Directive:
        answer = self.messenger.call(
            "record_events", self.job.run_id, self.job.attempt, first_seq, list(events), list(notes)
        )
        return Directive(**answer)


@ray.remote(num_cpus=0, max_retries=0)
def warm_up() -> None:
    """Load what building and scoring need, so that the first run does not wait for it."""
    restore_home()
    import potato_ray.bundle.builder
    import potato_ray.scoring.report  # noqa: F401

    pass_over_what_is_loaded()
    collect_seldom()


@ray.remote(num_cpus=0, max_retries=0)
def build_bundle(
    controller: Any, run_id: str, attempt: int, request: BundleRequest, folder: str
) -> BuildReport:
    """Build the bundle into `folder`/bundle; stops soon after `folder`/cancel.json appears."""
    restore_home()
    from potato_ray.bundle.builder import build

    pass_over_what_is_loaded()
    collect_seldom()
    job = JobFolder(folder)
    last = [0.0]

    def progress(step: str, current: int, total: int) -> None:
        now = time.monotonic()
        if now - last[0] >= PROGRESS_EVERY_S or current >= total:
            last[0] = now
            controller.note_progress.remote(run_id, attempt, step, current, total)

    return build(request, job.bundle, progress=progress, should_stop=job.cancel.exists, answers=job.answers)


@ray.remote(num_cpus=0, max_retries=0)
def pack_job(folder: str, state_dir: str, for_host: bool = False) -> dict[str, Any]:
    """Pack the bundle in `folder` and the code that goes with it; {"bundle", "code"}: sha256 and bytes.

    `for_host`: the code is the one that is copied to hosts over ssh, so the agent there has it already.
    """
    restore_home()
    from potato_ray.mirror.folder import MirrorFolder
    from potato_ray.shipping.bundle_archive import pack_bundle
    from potato_ray.shipping.code_archive import code_archive
    from potato_ray.shipping.host_archive import host_archive

    mirror = MirrorFolder(folder)
    bundle = pack_bundle(mirror.bundle, mirror.bundle_archive)
    code = (host_archive if for_host else code_archive)(Path(state_dir))
    return {
        "bundle": {"sha256": bundle.sha256, "bytes": bundle.n_bytes},
        "code": {"sha256": code.sha256, "bytes": code.n_bytes},
    }


@ray.remote(num_cpus=0, max_retries=0)
def supervise_run(
    controller: Any, config: ProjectConfig, backend: str, job: Job, spare: Path | None
) -> Outcome:
    """Start the job on its backend, or follow it where it runs already, to its end."""
    restore_home()
    messenger = Messenger(controller, patience_s=float(config.model_training.survive_s))

    def grant(run_id: str, attempt: int) -> Grant:
        granted: Grant = messenger.call("grant", run_id, attempt)
        return granted

    state_dir = config.state_dir
    login = _shared_login(messenger, backend) if shares_login(config, backend) else None
    means = Means(grant, place_of(state_dir), state_dir, trouble_of(state_dir), login)
    made = make_backend(backend, config, spare=spare, means=means)
    return made.execute(job, ControllerSink(messenger, job))


def _shared_login(messenger: Messenger, backend: str) -> AdapterLogin:
    """The way of a run to the login that its backend's runs share."""
    # Imported where there is one: what it needs is loaded by nobody else.
    from potato_ray.actors.adapter_login import AdapterLogin

    return AdapterLogin(lambda destination: messenger.call("slurm_adapter", backend, destination))


@ray.remote(num_cpus=0, max_retries=0)
def finish_run(
    folder: str,
    trainer: str,
    seed: int,
    previous: Mapping[str, float] | None,
    same_splits: bool,
    blind: str,
) -> dict[str, Any]:
    """Score the held-out predictions of the run in `folder`, and leave what illustrates the scores there.

    Answers `scores` and `warnings`: one for a score on few items, and one for each file beside the scores
    that could not be written.
    """
    restore_home()
    from potato_ray.scoring.report import few_items_warning, score_run

    pass_over_what_is_loaded()
    collect_seldom()
    job = JobFolder(folder)
    kind = offered_trainer(trainer)
    scores = score_run(
        job.bundle,
        job.predictions,
        selects_on_val=kind is not None and kind.selects_on_val,
        seed=seed,
        previous=previous,
        scored_as=kind.scored_as if kind is not None else None,
        same_splits=same_splits,
        blind=blind,
    )
    few = few_items_warning(scores.headline)
    return {"scores": scores.as_json(), "warnings": [*([few] if few else []), *_illustrate(scores, job)]}


def _illustrate(scores: RunScores, job: JobFolder) -> list[str]:
    """Leave scores, mistakes, pictures and curves in the run's folder; a warning for each that failed.

    The registry has the scores too, and forgets them with old runs. None of the files is worth a run that
    has trained, so none can fail it.
    """
    from potato_ray.scoring.curves import curves_in, write_curves
    from potato_ray.scoring.report import write_mistakes, write_pictures

    parts: dict[str, Callable[[], object]] = {
        "scores": lambda: write_json(job.scores, scores.as_json()),
        "list of mistakes": lambda: write_mistakes(scores, job.bundle, job.answers, job.mistakes),
        "pictures": lambda: write_pictures(scores, job.artifacts),
        "training curves": lambda: write_curves(curves_in(job.events), job.artifacts),
    }
    warnings = []
    for name, write in parts.items():
        try:
            write()
        except Exception as error:
            logger.exception("the %s of %s could not be written", name, job.path.name)
            reason = (str(error).splitlines() or [""])[0]
            warnings.append(f"The run's {name} could not be written: {type(error).__name__}: {reason}")
    return warnings
