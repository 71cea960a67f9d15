"""`potato-ray training cancel`."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potato_ray.backends.remote_note import read_note
from potato_ray.cli.output import out, print_json, say
from potato_ray.cli.run_command import command_run
from potato_ray.cli.runs import find_run, reader_of
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import ENDED, GONE, Follower
from potato_ray.registry.states import State
from potato_ray.run_log import write_log

if TYPE_CHECKING:
    from potato_ray.registry.runs import Run
    from potato_ray.registry.store import Registry

AFTER_GRACE_S = 5.0
POLL_S = 0.05


def run_cancel(name: str, config: Path, *, as_json: bool) -> int:
    """Cancel a run, through the process that holds the project or, with none, here."""
    loaded = load(config)
    run_id = find_run(loaded, name).run_id
    answer = command_run(loaded, run_id, "cancel", cancel_here)
    if as_json:
        print_json(answer)
    else:
        out(f"run {run_id}: {'cancelled' if answer['cancelled'] else 'cancelling'}")
    return 0


def cancel_here(
    config: ProjectConfig,
    run_id: str,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[str, Any]:
    """Cancel a run while nobody else is at work; the project's lock is ours.

    A worker that lives on is told to stop and waited for, at most grace_seconds and a little more; on a host
    that the server logs in to, so do we. Raises NotFound, and Conflict when the run has ended or is being
    finished.
    """
    from potato_ray.registry.store import Registry

    grace_s = float(config.model_training.grace_seconds)
    folder = JobFolder(config.training_dir / "runs" / run_id)
    notices = config.model_training.notify is not None
    with Registry(config.registry_path, project=config.annotation_task_name, notices=notices) as registry:
        run = registry.request_cancel(run_id)
        note = read_note(folder.path)
        if note is not None:
            from potato_ray.cli.host_cleanup import leave_host

            is_clear = leave_host(config, registry, run, note)
            run = _record_end(registry, run, release=is_clear)
        elif not run.ended:
            # A run gets its launcher after its bundle; a build ends with the process that made it.
            if run.state == State.BUILDING or _worker_stops(folder, grace_s, clock, sleep):
                run = _record_end(registry, run)
            else:
                say("its worker is still being stopped; the next server or training run records the end")
    if run.ended:
        _keep_log(config, run_id, folder)
    return {"run_id": run_id, "state": str(run.state), "cancelled": run.state == State.CANCELLED}


def _worker_stops(
    folder: JobFolder, grace_s: float, clock: Callable[[], float], sleep: Callable[[float], None]
) -> bool:
    """Tell the launcher to stop the worker, and wait; whether nothing of the run is alive any more."""
    if not folder.path.is_dir():
        return True
    follower = Follower(folder, clock=clock)
    folder.request_cancel("cancelled", grace_s)
    deadline = clock() + grace_s + AFTER_GRACE_S
    while (state := follower.state()) not in (ENDED, GONE):
        if clock() >= deadline:
            # Without process.json no launcher has come up, and one that still does finds the request.
            return not folder.process.exists()
        sleep(POLL_S)
    return state == ENDED or not follower.end_remains()


def _record_end(registry: Registry, run: Run, *, release: bool = True) -> Run:
    """The ended run. `release` False leaves its GPUs to the next server, until nothing can live there."""
    ended = registry.run(run.run_id)
    if not ended.ended:
        ended = registry.transition(run.run_id, run.attempt, State.CANCELLED)
    if release:
        registry.release(run.run_id)
    return ended


def _keep_log(config: ProjectConfig, run_id: str, folder: JobFolder) -> None:
    if folder.path.is_dir():
        with contextlib.suppress(OSError):
            write_log(reader_of(config), run_id, folder.path / "run.log")
