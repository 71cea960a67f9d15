"""`potato-ray training withdraw`."""

from __future__ import annotations

from pathlib import Path

from potato_ray.cli.output import out, print_json
from potato_ray.cli.run_command import command_run
from potato_ray.cli.runs import find_run, reader_of
from potato_ray.config import load
from potato_ray.config.models import ProjectConfig


def run_withdraw(name: str, config: Path, *, as_json: bool) -> int:
    """Take a run's pre-labels off the items, through whoever holds the project or, with nobody, here."""
    loaded = load(config)
    run_id = find_run(reader_of(loaded), name).run_id
    count = command_run(loaded, run_id, "withdraw", _withdraw_here)
    if as_json:
        print_json({"run_id": run_id, "withdrawn": count})
    else:
        out(f"run {run_id}: {count} pre-label{'' if count == 1 else 's'} withdrawn")
    return 0


def _withdraw_here(config: ProjectConfig, run_id: str) -> int:
    from potato_ray.registry.store import Registry
    from potato_ray.writeback import withdraw

    with Registry(config.registry_path, project=config.annotation_task_name) as registry:
        return withdraw(registry, run_id)
