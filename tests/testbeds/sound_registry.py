"""Whether a registry is whole, whatever has happened to its disk and its writers."""

from __future__ import annotations

import contextlib
import sqlite3

from potato_ray.config import ProjectConfig


def is_sound(config: ProjectConfig) -> bool:
    """Whether SQLite finds the file whole, and each run's events are numbered without a gap."""
    with contextlib.closing(sqlite3.connect(config.registry_path)) as connection:
        whole = connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        counted = connection.execute(
            "SELECT count(*) FROM potato_ray_runs r WHERE n_events <>"
            " (SELECT coalesce(max(e.seq), 0) FROM potato_ray_events e WHERE e.run = r.seq)"
            " OR n_events <> (SELECT count(*) FROM potato_ray_events e WHERE e.run = r.seq)"
        ).fetchone()
    return whole and counted == (0,)
