"""Taking a job in hand that the server has given out."""

from __future__ import annotations

from pathlib import Path

from potato_ray.agent.held_job import Failure, HeldJob
from potato_ray.agent.job_document import JobDocument
from potato_ray.agent.settings import Settings


def take_in_hand(jobs: Path, job: JobDocument, lease: str, settings: Settings) -> HeldJob:
    """The job, on disk where that is possible; where it is not, it has failed for that, and is told so."""
    server, backend = settings.server, settings.backend
    try:
        return HeldJob.create(jobs, job, lease, server, backend)
    except OSError as failure:
        held = HeldJob(jobs / job.name, job, lease, server, backend)
        held.fail(_no_room(jobs, failure, settings.host))
        return held


def _no_room(jobs: Path, failure: OSError, host: str) -> Failure:
    return Failure(
        "backend_failed",
        f"The agent on {host} could not make the job's folder in {jobs}: "
        f"{failure.strerror or type(failure).__name__}.",
        "Look at that disk, then start the run again.",
    )
