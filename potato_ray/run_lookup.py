"""A run by its id or the end of it, and its folder, which stays when the registry forgets its record."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.errors import NotFound
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run

if TYPE_CHECKING:
    from potato_ray.config.models import ProjectConfig

SHORTEST_END = 6
"""So many last characters of a run's id are enough to name it; pages show as many."""

_EVERY_RUN = 2**31
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
            next_step=f"{_remains(folder)}model_training.retain_runs says how many records are kept.",
        ) from None


def _remains(folder: Path) -> str:
    """Where to look for what its record held, of the files that are there."""
    there = [name for name in ("scores.json", "run.log") if (folder / name).is_file()]
    return f"Look at its {' and '.join(there)}; " if there else ""


def named_run(config: ProjectConfig, reader: RegistryReader, name: str) -> Run:
    """A run by its id, or by the end of its id, as a person at a terminal names it. Raises NotFound."""
    try:
        return find_run(config, reader, name)
    except NotFound as missing:
        found = _ending_in(name, reader)
        if len(found) == 1:
            return found[0]
        if found:
            raise _several(name, found) from None
        if missing.evidence:
            raise
        raise NotFound(
            missing.message,
            code=missing.code,
            evidence=f"No run's id is that, or ends in it ({SHORTEST_END} characters or more).",
            next_step="List the runs and their ids: potato-ray training runs",
        ) from None


def _ending_in(name: str, reader: RegistryReader) -> list[Run]:
    if len(name) < SHORTEST_END:
        return []
    return [run for run in reader.runs(limit=_EVERY_RUN) if run.run_id.endswith(name)]


def _several(name: str, found: list[Run]) -> NotFound:
    return NotFound(
        f"{len(found)} runs have an id that ends in {name}.",
        code="unknown_run",
        evidence=f"They are {', '.join(run.run_id for run in found)}.",
        next_step="Write more of the id.",
    )
