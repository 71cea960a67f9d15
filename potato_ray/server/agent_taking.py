"""What agents send of a job, taken into its mirror: in threads, after the run's row was looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potato_ray.errors import NotFound
from potato_ray.mirror.reading import as_object, progress_of, result_of
from potato_ray.mirror.refusals import stale
from potato_ray.mirror.secrecy import without_secrets
from potato_ray.mirror.upload import Upload
from potato_ray.server.agent_door import AgentJob, Door

RESULT_TAKEN = "Its result has been taken already."


@dataclass(frozen=True)
class Taken:
    """The answer to a request about a job, and what its agent said of itself at the claim.

    `in_hand`: the agent goes on with the job.
    """

    answer: Mapping[str, Any]
    agent: Mapping[str, Any] = field(default_factory=dict)
    in_hand: bool = False


def take_progress(door: Door, job: AgentJob, raw: bytes) -> Taken:
    """Events and notes. Raises what Door.present_run and Mirror.take raise, and Malformed."""
    run = door.present_run(job)
    report = progress_of(as_object(without_secrets(raw, job.secrets)))
    mirror = door.mirror(job)
    with mirror.held(job.holder):
        next_seq = mirror.take(report)
        cancel = run.cancelling or mirror.folder.cancel.exists()
        claim = mirror.folder.read_claim()
        # A report that was under way may come in behind the result.
        in_hand = not mirror.folder.result.exists()
    grace_s = door.context.config.model_training.grace_seconds
    answer = {"cancel": cancel, "grace_seconds": grace_s, "next_seq": next_seq}
    return Taken(answer, claim.agent if claim is not None else {}, in_hand)


def take_result(door: Door, job: AgentJob, raw: bytes) -> Taken:
    """The end. One that was taken already is taken again, also after the run has ended."""
    run = door.run_of(job)
    result = result_of(as_object(without_secrets(raw, job.secrets)))
    mirror = door.mirror(job)
    if not mirror.has_ended_as(result, job.holder):
        door.require_present(run, job)
        with mirror.held(job.holder):
            mirror.end(result)
    claim = mirror.folder.read_claim()
    return Taken({"next_seq": result.next_seq}, claim.agent if claim is not None else {})


def begin_upload(door: Door, job: AgentJob, n_bytes: int, sha256: str) -> Upload:
    """Room for predictions beside their place."""
    door.present_run(job)
    mirror = door.mirror(job)
    with mirror.held(job.holder):
        if mirror.folder.result.exists():
            raise stale(RESULT_TAKEN)
        return Upload(mirror, n_bytes, sha256)


def finish_upload(door: Door, job: AgentJob, upload: Upload) -> None:
    """The predictions in their place, if the job is still in the same hands."""
    door.present_run(job)
    with door.mirror(job).held(job.holder):
        if upload.mirror.folder.result.exists():
            raise stale(RESULT_TAKEN)
        upload.finish()


def find_bundle(door: Door, job: AgentJob) -> tuple[Path, str]:
    """The packed bundle and its sha256. Raises NotFound (unknown_bundle)."""
    door.present_run(job)
    mirror = door.mirror(job)
    with mirror.held(job.holder):
        made = mirror.folder.read_job(job.holder.attempt)
    if made is None or not mirror.folder.bundle_archive.is_file():
        raise NotFound(
            "There is no bundle of this attempt.",
            code="unknown_bundle",
            evidence="It is made when the run is claimed, and removed when the run has ended.",
            next_step="Report a result with `failure`, and claim with a new lease.",
        )
    return mirror.folder.bundle_archive, str(made["bundle"]["sha256"])
