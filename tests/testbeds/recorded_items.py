"""The items of a run as its registry has recorded them; no part of the product reads them back."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path


def items_of(registry: Path, run_id: str, split: str) -> list[str]:
    """The items of one split of a run, in order of id."""
    with closing(sqlite3.connect(f"file:{registry}?mode=ro", uri=True)) as connection:
        rows = connection.execute(
            "SELECT i.instance_id FROM potato_ray_run_items i JOIN potato_ray_runs r ON r.seq = i.run"
            " WHERE r.run_id = ? AND i.split = ? ORDER BY i.instance_id",
            (run_id, split),
        )
        return [row[0] for row in rows]
