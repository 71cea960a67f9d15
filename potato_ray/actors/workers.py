"""Who trains a run, and since when, by what its worker has left and said."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from potato_ray.job.folder import JobFolder
from potato_ray.registry.runs import Run

logger = logging.getLogger(__name__)


def worker_of(
    job: JobFolder,
    run: Run,
    events: Sequence[Mapping[str, Any]] = (),
    clock: Callable[[], float] = time.time,
) -> dict[str, Any]:
    """The worker's start, and where it is known pid and host, as fields of its run; {}: there was no worker.

    process.json of a worker elsewhere stays there: its exit.json has the time, or the first of its `events`.
    """
    try:
        processes, end = job.read_processes(), job.read_exit()
    except (OSError, ValueError, KeyError, TypeError) as failure:
        # A run ends without these, too.
        logger.warning("run %s: it could not be read who trained: %s", run.run_id, failure)
        return {}
    if processes is not None:
        worker = processes.worker
        return {"pid": worker.pid, "host": worker.host, "started_at": processes.started_at}
    # Where a job was ended that had no worker yet, both are one moment.
    if end is not None and end.started_at < end.ended_at:
        return {"started_at": _by_our_clock(run, end.started_at, end.ended_at, clock())}
    said_at = events[0].get("t") if events else None
    if isinstance(said_at, int | float):
        return {"started_at": _by_our_clock(run, said_at, said_at, clock())}
    return {}


def _by_our_clock(run: Run, started_at: float, told_at: float, now: float) -> float:
    """As it was told, or as long ago as it was then where the clock of that machine cannot be right."""
    is_right = (run.begun_at or 0.0) <= started_at <= now
    return started_at if is_right else now - (told_at - started_at)
