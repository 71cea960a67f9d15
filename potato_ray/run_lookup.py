"""A run by its id, and its folder, which stays when the registry forgets its record."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.errors import NotFound
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run

if TYPE_CHECKING:
    from potato_ray.config.models import ProjectConfig

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")


def run_folder(config: ProjectConfig, run_id: str) -> Path | None:
    """The folder of a run, whether it is there or not; None for what can be no run's name."""
    return config.training_dir / "runs" / run_id if _RUN_ID.fullmatch(run_id) else None


def find_run(config: ProjectConfig, reader: RegistryReader, run_id: str) -> Run:
    """A run of the registry. Raises NotFound, which names the folder that a pruned run has left."""
    try:
        return reader.run(run_id)
    except NotFound as missing:
        folder = run_folder(config, run_id)
        if folder is None or not folder.is_dir():
            raise
        raise NotFound(
            f"The record of run {run_id} was pruned; its folder is still on disk.",
            code=missing.code,
            evidence=f"It is {folder}.",
            next_step="Look at its run.log; model_training.retain_runs says how many records are kept.",
        ) from None
