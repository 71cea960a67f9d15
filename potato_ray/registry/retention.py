"""Which records are pruned: superseded predictions first, then the runs that nothing needs any more.

Of the ended runs the newest `retain_runs` successful ones stay, and as many of the others: a row of
failures must not push a good model's record out. A run whose predictions are still stored stays, and
so does one that holds a GPU. Pre-labels, pushes and folders on disk are never touched here.
"""

# ruff: noqa: S608  # every name in a statement comes from this package; values are always bound

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from potato_ray.registry import potato_tables
from potato_ray.registry.items import forget_items
from potato_ray.registry.prelabels import Pair
from potato_ray.registry.states import ENDED, listed


@dataclass(frozen=True)
class Record:
    """What is left to remove of a run: `seq` is its number in our tables."""

    seq: int
    project: str
    run_id: str


_NONE = 2**63 - 1
"""Above every number."""

_DISCARD = """
SELECT p.instance_id, p.schema_name, (
    r.state <> 'success'
    OR EXISTS (
        SELECT 1 FROM potato_ray_predictions n JOIN potato_ray_runs nr ON nr.seq = n.run
        WHERE n.instance_id = p.instance_id AND n.schema_name = p.schema_name
        AND nr.begun > r.begun AND nr.state = 'success'
        AND (nr.beats_baseline IS 1 OR nr.beats_baseline IS NULL AND r.beats_baseline IS NOT 1))
    OR EXISTS (
        SELECT 1 FROM potato_ray_run_items i JOIN potato_ray_runs nr ON nr.seq = i.run
        WHERE i.instance_id = p.instance_id AND i.split = 'train'
        AND nr.begun > r.begun AND nr.state = 'success')
) AS discard
FROM potato_ray_predictions p JOIN potato_ray_runs r ON r.seq = p.run
WHERE p.run = ? AND (p.instance_id, p.schema_name) > (?, ?)
ORDER BY p.instance_id, p.schema_name LIMIT ?"""

# The inner part reads the index on the state alone, never the rows with their scores.
_PRUNABLE = f"""
SELECT r.seq, r.project, r.run_id FROM (
    SELECT seq, row_number() OVER (PARTITION BY state = 'success' ORDER BY seq DESC) AS place
    FROM potato_ray_runs WHERE state IN ({listed(ENDED)})) ended
JOIN potato_ray_runs r ON r.seq = ended.seq
WHERE place > ?
AND NOT EXISTS (SELECT 1 FROM potato_ray_predictions p WHERE p.run = ended.seq)
AND NOT EXISTS (SELECT 1 FROM potato_ray_prelabels l WHERE l.run = ended.seq)
AND NOT EXISTS (SELECT 1 FROM potato_ray_reservations v WHERE v.run = ended.seq)
ORDER BY r.seq"""


def ended_with_predictions(connection: sqlite3.Connection) -> list[int]:
    """The ended runs that have stored predictions, oldest first."""
    rows = connection.execute(
        f"SELECT seq FROM potato_ray_runs r WHERE state IN ({listed(ENDED)})"
        " AND EXISTS (SELECT 1 FROM potato_ray_predictions p WHERE p.run = r.seq) ORDER BY seq"
    )
    return [row[0] for row in rows]


def discardable(
    connection: sqlite3.Connection, run: int, after: Pair, limit: int
) -> tuple[list[Pair], Pair | None]:
    """Look at the next `limit` predictions of a run: those that can go, and the last pair (None: all seen).

    A prediction can go when its run was no success, a newer successful run has one for the same pair,
    or a newer successful run trains on the item.
    """
    rows = connection.execute(_DISCARD, (run, *after, limit)).fetchall()
    last = (rows[-1][0], rows[-1][1]) if len(rows) == limit else None
    return [(row[0], row[1]) for row in rows if row["discard"]], last


def discard(connection: sqlite3.Connection, run: int, pairs: Sequence[Pair]) -> None:
    """Delete these predictions of a run."""
    connection.executemany(
        "DELETE FROM potato_ray_predictions WHERE run = ? AND instance_id = ? AND schema_name = ?",
        [(run, *pair) for pair in pairs],
    )


def prunable(connection: sqlite3.Connection, retain_runs: int) -> list[Record]:
    """The runs whose records can go, oldest first."""
    return [Record(*row) for row in connection.execute(_PRUNABLE, (retain_runs,))]


def forget(connection: sqlite3.Connection, record: Record) -> None:
    """Delete a run's row here and in Potato's table; what hangs on it follows in chunks."""
    connection.execute("DELETE FROM potato_ray_runs WHERE seq = ?", (record.seq,))
    potato_tables.forget_run(connection, record.run_id)


def forget_children(connection: sqlite3.Connection, run: int, limit: int) -> int:
    """Delete at most `limit` rows each of a run's events, journal and items; returns how many went."""
    events = connection.execute(
        "DELETE FROM potato_ray_events WHERE run = ? AND seq IN"
        " (SELECT seq FROM potato_ray_events WHERE run = ? LIMIT ?)",
        (run, run, limit),
    ).rowcount
    entries = connection.execute(
        "DELETE FROM potato_ray_journal WHERE number IN"
        " (SELECT number FROM potato_ray_journal WHERE run = ? LIMIT ?)",
        (run, limit),
    ).rowcount
    return events + entries + forget_items(connection, run, limit)


def orphans(connection: sqlite3.Connection) -> list[int]:
    """Numbers of runs that are gone while rows of theirs are left, after a prune that was cut off."""
    found: set[int] = set()
    for below, above in _gaps(connection):
        for table in ("potato_ray_events", "potato_ray_journal", "potato_ray_run_items"):
            found.update(_between(connection, table, below, above))
    return sorted(found)


def _gaps(connection: sqlite3.Connection) -> Iterator[tuple[int, int]]:
    """The recorded numbers between which others may have been: pairs of neighbours, both exclusive."""
    known = [row[0] for row in connection.execute("SELECT seq FROM potato_ray_runs ORDER BY seq")]
    return ((below, above) for below, above in pairwise((-1, *known, _NONE)) if above - below > 1)


def _between(connection: sqlite3.Connection, table: str, below: int, above: int) -> Iterator[int]:
    """The numbers in between that a table has rows of, one step of its key at a time, never by a scan."""
    query = f"SELECT min(run) FROM {table} WHERE run > ? AND run < ?"
    while (run := connection.execute(query, (below, above)).fetchone()[0]) is not None:
        yield run
        below = run
