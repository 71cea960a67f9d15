"""`potato-ray training withdraw`."""

from __future__ import annotations

import contextlib
from pathlib import Path

from potato_ray.cli.output import out, print_json
from potato_ray.cli.run_command import command_run
from potato_ray.cli.runs import find_run, reader_of
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig
from potato_ray.registry.states import State


def run_withdraw(name: str, config: Path, *, as_json: bool) -> int:
    """Take a run's pre-labels off the items, through whoever holds the project or, with nobody, here."""
    loaded = load(config)
    # As for `predict`: a run that failed after it has no pre-labels to take off.
    run_id = find_run(loaded, name, status=State.SUCCESS).run_id
    stored = _has_predictions(loaded, run_id)
    count = command_run(loaded, run_id, "withdraw", _withdraw_here)
    if as_json:
        print_json({"run_id": run_id, "withdrawn": count})
    else:
        out(f"run {run_id}: {_withdrawn(count, stored)}")
    return 0


def _has_predictions(config: ProjectConfig, run_id: str) -> bool:
    with contextlib.closing(reader_of(config).predictions(run_id)) as stored:
        return next(stored, None) is not None


def _withdrawn(count: int, stored: bool) -> str:
    if count:
        return f"{count} pre-label{'' if count == 1 else 's'} withdrawn"
    if stored:
        return "its stored predictions are withdrawn; no pre-label of it was on an item"
    return "nothing to withdraw: it has no pre-labels and no stored predictions"


def _withdraw_here(config: ProjectConfig, run_id: str) -> int:
    from potato_ray.registry.store import Registry
    from potato_ray.writeback import withdraw

    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        return withdraw(registry, run_id)
