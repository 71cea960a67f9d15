"""How long every slot was taken, by the times at which runs began and ended."""

# ruff: noqa: S608  # the names of the states come from this package; values are always bound

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from potato_ray.registry.states import ACTIVE, listed

Span = tuple[float, float]
"""When a run began and when it ended, in epoch seconds."""


def full_s(spans: Iterable[Span], slots: int, since: float, until: float) -> float:
    """Seconds between `since` and `until` in which at least `slots` of the spans overlapped."""
    changes = sorted(
        change
        for began, ended in spans
        if began < until and ended > since
        for change in ((max(began, since), 1), (min(ended, until), -1))
    )
    taken, at, full = 0, since, 0.0
    for moment, step in changes:
        full += moment - at if taken >= slots else 0.0
        taken, at = taken + step, moment
    return full


def spans_between(connection: sqlite3.Connection, since: float, until: float) -> list[Span]:
    """The runs that held a slot at some time then; of several attempts of a run the last one is known."""
    rows = connection.execute(
        "SELECT begun_at, finished_at FROM potato_ray_runs WHERE begun_at < :until AND"
        f" (finished_at > :since OR finished_at IS NULL AND state IN ({listed(ACTIVE)}))",
        {"since": since, "until": until},
    )
    return [(float(row[0]), until if row[1] is None else float(row[1])) for row in rows]
