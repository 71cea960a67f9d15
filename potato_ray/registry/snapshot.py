"""What is going on at one moment: the runs in progress, those that wait, and the newest that ended."""

# ruff: noqa: S608  # every name in a statement comes from this package; values are always bound

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from potato_ray.registry import agents, runs, schema
from potato_ray.registry.runs import Run
from potato_ray.registry.states import ACTIVE, ENDED, State, listed

_LAST_AMONG = 100
"""The newest that ended is looked for among so many; only a run that so many overtook could hide it."""


# The plus keeps SQLite from sorting every ended run by way of the index on the state. The journal knows the
# order of the ends also where the clock was set back in between; a run from before it goes by its time.
_LAST = f"""
WITH newest AS (SELECT n.seq, n.finished_at FROM potato_ray_runs n
    WHERE +n.state IN ({listed(ENDED)}) ORDER BY n.seq DESC LIMIT {_LAST_AMONG})
{runs.SELECT} WHERE r.seq = (SELECT seq FROM newest ORDER BY %s finished_at DESC, seq DESC LIMIT 1)"""
_ENDED_AS = """(SELECT j.number FROM potato_ray_journal j
    WHERE j.run = newest.seq AND j.status IS NOT NULL ORDER BY j.number DESC LIMIT 1) DESC,"""


@dataclass(frozen=True)
class Snapshot:
    """Of one moment. `current` holds a slot, `waiting` is queued or on offer; both oldest first.

    `heard` tells, for each backend to whose agents a run is on offer, when each of them was last heard of
    (epoch seconds UTC); those that have left are not among them.
    """

    current: tuple[Run, ...] = ()
    waiting: tuple[Run, ...] = ()
    last: Run | None = None
    heard: Mapping[str, tuple[float, ...]] = field(default_factory=dict)


def take(connection: sqlite3.Connection) -> Snapshot:
    """The snapshot of the connection's present transaction."""
    waiting = _in(connection, frozenset({State.QUEUED, State.OFFERED}))
    return Snapshot(
        current=_in(connection, ACTIVE),
        waiting=waiting,
        last=next((runs.from_row(row) for row in connection.execute(_last(connection))), None),
        heard=_heard(connection, waiting),
    )


def _heard(connection: sqlite3.Connection, waiting: Sequence[Run]) -> dict[str, tuple[float, ...]]:
    offered = {run.backend: () for run in waiting if run.state is State.OFFERED}
    if not offered or schema.version(connection) < schema.AGENTS_VERSION:
        return dict(offered)
    return {
        backend: tuple(each.last_seen for each in agents.agents(connection, backend) if not each.has_left)
        for backend in offered
    }


def _last(connection: sqlite3.Connection) -> str:
    """The statement for the run that ended last; an older file has no journal yet."""
    return _LAST % (_ENDED_AS if schema.version(connection) >= schema.JOURNAL_VERSION else "")


def _in(connection: sqlite3.Connection, states: frozenset[State]) -> tuple[Run, ...]:
    rows = connection.execute(f"{runs.SELECT} WHERE r.state IN ({listed(states)}) ORDER BY r.seq")
    return tuple(runs.from_row(row) for row in rows)
