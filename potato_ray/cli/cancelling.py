"""`potato-ray training cancel`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from potato_ray.cli.output import out, print_json
from potato_ray.cli.runs import find_run, reader_of
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict
from potato_ray.lock import holding

CANCEL_TIMEOUT_S = 30.0


def run_cancel(name: str, config: Path, *, as_json: bool) -> int:
    """Cancel a run, through the process that holds the project or, with none, in the registry."""
    loaded = load(config)
    run_id = find_run(reader_of(loaded), name).run_id
    answer = _cancel(loaded, run_id)
    if as_json:
        print_json(answer)
    else:
        out(f"run {run_id}: {'cancelled' if answer['cancelled'] else 'cancelling'}")
    return 0


def _cancel(config: ProjectConfig, run_id: str) -> dict[str, Any]:
    try:
        with holding(config.state_dir, "potato-ray training cancel"):
            return _cancel_here(config, run_id)
    except Conflict as held:
        if held.code != "project_in_use":
            raise
    from potato_ray.actors.session import call, reach

    return dict(call(reach(config), "cancel", run_id, timeout_s=CANCEL_TIMEOUT_S))


def _cancel_here(config: ProjectConfig, run_id: str) -> dict[str, Any]:
    """With nobody at work: a waiting run ends at once; a launcher that lives on is told to stop."""
    from potato_ray.job.folder import JobFolder
    from potato_ray.registry.states import State
    from potato_ray.registry.store import Registry

    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        run = registry.request_cancel(run_id)
    folder = JobFolder(config.training_dir / "runs" / run_id)
    if folder.path.is_dir() and run.state != State.CANCELLED:
        folder.request_cancel("cancelled", float(config.model_training.grace_seconds))
    return {"run_id": run_id, "state": str(run.state), "cancelled": run.state == State.CANCELLED}
