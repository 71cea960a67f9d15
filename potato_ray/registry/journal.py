"""What happened in all runs, numbered in the order of the commits: events, and changes of a status.

Triggers write the journal, so nothing happens past it. SQLite has one writer at a time and never gives a
number twice: whoever has read up to a number has seen everything below it that there will ever be.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass
from typing import Any

from potato_ray.registry import events, schema

_READ = """
SELECT j.number, r.run_id, j.event AS of_event, j.status, j.attempt AS at_attempt, j.t AS at,
    e.seq, e.attempt, e.source, e.t, e.event, e.body
FROM potato_ray_journal j
JOIN potato_ray_runs r ON r.seq = j.run
LEFT JOIN potato_ray_events e ON e.run = j.run AND e.seq = j.event
WHERE j.number > :after AND j.number <= :upto AND (j.event = 0 OR e.seq IS NOT NULL)"""


BYTES_MAX = 256 * 1024
"""A stretch ends with the entry that goes beyond so much."""


@dataclass(frozen=True)
class Entry:
    """One thing that happened. `said` is an event with its `id`, or {"event": "state", "status", ...}."""

    number: int
    run_id: str
    said: dict[str, Any]


@dataclass(frozen=True)
class Stretch:
    """The entries of a part of the journal, in their order; it goes up to the number `upto`."""

    entries: tuple[Entry, ...]
    upto: int


def newest(connection: sqlite3.Connection) -> int:
    """The highest number so far, 0 before the first; it stays when that entry is pruned."""
    if schema.version(connection) < schema.JOURNAL_VERSION:
        # A file that no writer has brought up to date: its events will get the numbers from 1 on.
        return int(connection.execute("SELECT count(*) FROM potato_ray_events").fetchone()[0])
    row = connection.execute("SELECT seq FROM sqlite_sequence WHERE name = 'potato_ray_journal'").fetchone()
    return int(row[0])


def read(
    connection: sqlite3.Connection, after: int, upto: int, limit: int, run_id: str | None = None
) -> Stretch:
    """What has a number above `after` and at most `upto`, of one run or of all.

    It ends before `upto` when there is more than `limit` entries or about BYTES_MAX; what was pruned is
    passed over.
    """
    if schema.version(connection) < schema.JOURNAL_VERSION:
        return Stretch((), upto)
    one = "" if run_id is None else " AND r.run_id = :run_id"
    rows = connection.execute(
        f"{_READ}{one} ORDER BY j.number LIMIT :limit",
        {"after": after, "upto": upto, "limit": limit, "run_id": run_id},
    )
    entries: list[Entry] = []
    size = 0
    for row in rows:
        entries.append(Entry(row["number"], row["run_id"], _said(row)))
        size += len(row["body"] or "")
        if size > BYTES_MAX:
            break
    rows.close()
    cut = size > BYTES_MAX or len(entries) == limit
    return Stretch(tuple(entries), entries[-1].number if cut else upto)


def _said(row: sqlite3.Row) -> dict[str, Any]:
    if not row["of_event"]:
        changed = {"attempt": row["at_attempt"], "source": "server", "t": row["at"]}
        return {"event": "state", "status": row["status"], **changed}
    return events.as_told(row)
