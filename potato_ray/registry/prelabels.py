"""Pre-labels: which stored prediction of an item and scheme is on the item, chunk by chunk.

A *pair* is an item and a scheme. A pair has at most one pre-label, that of the newest run that has a
prediction for it; runs are ordered by when they began, because a later begin saw more annotations.
The decision itself is the caller's: these functions fetch what it needs to know and carry it out in
the same transaction.
"""

# ruff: noqa: S608  # every name in a statement comes from this package; values are always bound

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from potato_ray.registry import potato_tables
from potato_ray.registry.runs import to_json
from potato_ray.registry.states import ENDED, State, listed

Pair = tuple[str, str]


@dataclass(frozen=True)
class Candidate:
    """A stored prediction and everything that decides whether it is shown.

    `trained_on`: the item is in the train split of any recorded run, ours or Potato's. `rejected`: a
    reviewer rejected the pair. `superseded`: a newer successful run has a prediction for the pair.
    """

    instance_id: str
    schema_name: str
    payload: Mapping[str, Any]
    confidence: float | None
    trained_on: bool = False
    rejected: bool = False
    superseded: bool = False


@dataclass(frozen=True)
class Decision:
    """What becomes of a candidate.

    `outcome` names the counter. `shown` is what the annotator gets, None: nothing. `keep` leaves the
    pair as it is (the run does not count for what is on the items).
    """

    outcome: str
    shown: Any = None
    keep: bool = False


Decide = Callable[[Candidate], Decision]


@dataclass(frozen=True)
class Chunk:
    """What one transaction did: counts by outcome, and the last pair that it saw (None: all done)."""

    counts: Mapping[str, int]
    cleared: int
    last: Pair | None


_OF_RUN = """
SELECT p.run, p.instance_id, p.schema_name, p.payload, p.confidence, p.created_at, EXISTS (
    SELECT 1 FROM potato_ray_predictions n JOIN potato_ray_runs nr ON nr.seq = n.run
    WHERE n.instance_id = p.instance_id AND n.schema_name = p.schema_name AND nr.state = 'success'
    AND nr.begun > :begun AND ({counts})) AS superseded
FROM potato_ray_predictions p
WHERE p.run = :run AND (p.instance_id, p.schema_name) > (:item, :schema)
ORDER BY p.instance_id, p.schema_name LIMIT :limit"""

_NEWEST = """
SELECT p.run, p.instance_id, p.schema_name, p.payload, p.confidence, p.created_at, 0 AS superseded,
    max(nr.begun) AS newest
FROM potato_ray_predictions p INDEXED BY potato_ray_predictions_by_pair
CROSS JOIN potato_ray_runs nr ON nr.seq = p.run
WHERE (nr.state = 'success' OR nr.state = 'finishing' AND nr.writeback_progress IS NOT NULL)
AND ({counts}) AND (p.instance_id, p.schema_name) > (:item, :schema)
GROUP BY p.instance_id, p.schema_name
ORDER BY p.instance_id, p.schema_name LIMIT :limit"""

_CANDIDATES = """
SELECT c.*, l.run AS shown_run, l.payload AS shown_payload, m.run_id AS mirrored, m.created_at AS mirrored_at,
    r.run_id AS run_id, (
        EXISTS (SELECT 1 FROM potato_ray_run_items i
            WHERE i.instance_id = c.instance_id AND i.split = 'train')
        OR EXISTS (SELECT 1 FROM training_run_items i
            WHERE i.instance_id = c.instance_id AND i.split = 'train')
    ) AS trained_on, {rejected} AS rejected
FROM ({source}) c
JOIN potato_ray_runs r ON r.seq = c.run
LEFT JOIN potato_ray_prelabels l ON l.instance_id = c.instance_id AND l.schema_name = c.schema_name
LEFT JOIN training_predictions m
    ON m.project = :project AND m.instance_id = c.instance_id AND m.schema_name = c.schema_name
ORDER BY c.instance_id, c.schema_name"""


@dataclass(frozen=True)
class Progress:
    """How far a publication is: counts by outcome, and how many older pre-labels went.

    `cleared` were superseded by a prediction that is not shown, `untrained` were on items that the
    run trains on. `after` is the last pair seen.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    cleared: int = 0
    untrained: int = 0
    after: Pair = ("", "")
    phase: str = "trained"

    @property
    def done(self) -> bool:
        return self.phase == "done"


def publish_step(
    connection: sqlite3.Connection, project: str, run_id: str, decide: Decide, gate_blocks: bool, limit: int
) -> Progress:
    """One chunk of a publication: first the items that the run trains on, then its predictions."""
    row = connection.execute(
        "SELECT seq, begun, writeback_progress FROM potato_ray_runs WHERE run_id = ?", (run_id,)
    ).fetchone()
    progress = _progress(row["writeback_progress"])
    if progress.phase == "trained":
        taken = take_off_trained(connection, project, row["seq"], limit)
        phase = "trained" if taken == limit else "predictions"
        progress = replace(progress, untrained=progress.untrained + taken, phase=phase)
    elif progress.phase == "predictions":
        values = {"run": row["seq"], "begun": row["begun"]}
        source = _OF_RUN.format(counts=_counting(gate_blocks))
        chunk = _settle(connection, project, source, values, progress.after, decide, limit)
        progress = _added(progress, chunk)
    connection.execute(
        "UPDATE potato_ray_runs SET writeback_progress = ? WHERE run_id = ?",
        (to_json(asdict(progress)), run_id),
    )
    return progress


def _progress(text: str | None) -> Progress:
    if text is None:
        return Progress()
    body = json.loads(text)
    return Progress(**{**body, "after": (body["after"][0], body["after"][1])})


def _added(progress: Progress, chunk: Chunk) -> Progress:
    counts = dict(progress.counts)
    for outcome, number in chunk.counts.items():
        counts[outcome] = counts.get(outcome, 0) + number
    return replace(
        progress,
        counts=counts,
        cleared=progress.cleared + chunk.cleared,
        after=chunk.last or progress.after,
        phase="done" if chunk.last is None else progress.phase,
    )


def settle_newest(
    connection: sqlite3.Connection, project: str, after: Pair, decide: Decide, gate_blocks: bool, limit: int
) -> Chunk:
    """Settle the newest stored prediction of the next `limit` pairs after `after`.

    A run whose publication is under way counts as well, so that a replay beside it agrees with it.
    """
    source = _NEWEST.format(counts=_counting(gate_blocks))
    return _settle(connection, project, source, {}, after, decide, limit)


def _counting(gate_blocks: bool) -> str:
    """SQL on run `nr`: whether its predictions supersede older ones. A blocked model's do not."""
    return "nr.beats_baseline IS 1" if gate_blocks else "1"


def _settle(
    connection: sqlite3.Connection,
    project: str,
    source: str,
    values: Mapping[str, Any],
    after: Pair,
    decide: Decide,
    limit: int,
) -> Chunk:
    rejected = potato_tables.verdict_clause(connection, "reject", ("c.instance_id", "c.schema_name"))
    rows = connection.execute(
        _CANDIDATES.format(source=source, rejected=rejected),
        {**values, "project": project, "item": after[0], "schema": after[1], "limit": limit},
    ).fetchall()
    decided = [(row, decide(_candidate(row))) for row in rows]
    counts: dict[str, int] = {}
    for _, decision in decided:
        counts[decision.outcome] = counts.get(decision.outcome, 0) + 1
    _show(connection, project, [(row, each.shown) for row, each in decided if each.shown is not None])
    hidden = [row for row, each in decided if each.shown is None and not each.keep and not row["superseded"]]
    cleared = _hide(connection, project, hidden)
    last = (rows[-1]["instance_id"], rows[-1]["schema_name"]) if len(rows) == limit else None
    return Chunk(counts, cleared, last)


def _candidate(row: sqlite3.Row) -> Candidate:
    return Candidate(
        row["instance_id"],
        row["schema_name"],
        json.loads(row["payload"]),
        row["confidence"],
        trained_on=bool(row["trained_on"]),
        rejected=bool(row["rejected"]),
        superseded=bool(row["superseded"]),
    )


def _show(connection: sqlite3.Connection, project: str, rows: Sequence[tuple[sqlite3.Row, Any]]) -> None:
    texts = [(row, to_json(shown)) for row, shown in rows]
    connection.executemany(
        "INSERT OR REPLACE INTO potato_ray_prelabels (instance_id, schema_name, run, payload, created_at)"
        " VALUES (?, ?, ?, ?, ?)",
        [
            (row["instance_id"], row["schema_name"], row["run"], text, row["created_at"])
            for row, text in texts
            if (row["shown_run"], row["shown_payload"]) != (row["run"], text)
        ],
    )
    potato_tables.put_prelabels(
        connection,
        [
            (
                project,
                row["instance_id"],
                row["schema_name"],
                row["run_id"],
                text,
                row["confidence"],
                row["created_at"],
            )
            for row, text in texts
            if row["mirrored"] != row["run_id"] or row["shown_payload"] != text
        ],
    )


def _hide(connection: sqlite3.Connection, project: str, rows: Sequence[sqlite3.Row]) -> int:
    """Take the pre-labels of these pairs off; returns how many pairs had one."""
    own = [row for row in rows if row["shown_run"] is not None]
    mirrored = [row for row in rows if row["mirrored"] is not None]
    connection.executemany(
        "DELETE FROM potato_ray_prelabels WHERE instance_id = ? AND schema_name = ?",
        [(row["instance_id"], row["schema_name"]) for row in own],
    )
    potato_tables.take_off_prelabels(
        connection, [(project, row["instance_id"], row["schema_name"], row["created_at"]) for row in mirrored]
    )
    older = [row for row in mirrored if row["shown_run"] is None and row["mirrored_at"] <= row["created_at"]]
    return len(own) + len(older)


def take_off_trained(connection: sqlite3.Connection, project: str, run: int, limit: int) -> int:
    """Take at most `limit` pre-labels off items that `run` trains on; returns how many, 0: none left."""
    pairs = connection.execute(
        "SELECT l.instance_id, l.schema_name FROM potato_ray_prelabels l JOIN potato_ray_run_items i"
        " ON i.instance_id = l.instance_id AND i.run = ? AND i.split = 'train' LIMIT ?",
        (run, limit),
    ).fetchall()
    return _take_off(connection, project, pairs)


def take_off_orphans(connection: sqlite3.Connection, project: str, limit: int) -> int:
    """Take off pre-labels whose prediction is no longer stored or whose run has ended without success."""
    pairs = connection.execute(
        "SELECT l.instance_id, l.schema_name FROM potato_ray_prelabels l WHERE NOT EXISTS ("
        " SELECT 1 FROM potato_ray_predictions p"
        f" JOIN potato_ray_runs r ON r.seq = p.run AND r.state NOT IN ({listed(ENDED - {State.SUCCESS})})"
        " WHERE p.run = l.run AND p.instance_id = l.instance_id AND p.schema_name = l.schema_name) LIMIT ?",
        (limit,),
    ).fetchall()
    return _take_off(connection, project, pairs)


def take_off_run(connection: sqlite3.Connection, project: str, run: int, limit: int) -> int:
    """Take at most `limit` pre-labels of one run off; returns how many, 0: none left."""
    pairs = connection.execute(
        "SELECT instance_id, schema_name FROM potato_ray_prelabels WHERE run = ? LIMIT ?", (run, limit)
    ).fetchall()
    return _take_off(connection, project, pairs)


def _take_off(connection: sqlite3.Connection, project: str, pairs: Sequence[sqlite3.Row]) -> int:
    connection.executemany(
        "DELETE FROM potato_ray_prelabels WHERE instance_id = ? AND schema_name = ?",
        [tuple(pair) for pair in pairs],
    )
    potato_tables.take_off_own_prelabels(connection, [(project, *pair) for pair in pairs])
    return len(pairs)


def has_any(connection: sqlite3.Connection, run: int) -> bool:
    """Whether predictions of a run are stored, or pre-labels of it shown."""
    found = connection.execute(
        "SELECT EXISTS (SELECT 1 FROM potato_ray_predictions WHERE run = :run)"
        " OR EXISTS (SELECT 1 FROM potato_ray_prelabels WHERE run = :run)",
        {"run": run},
    )
    return bool(found.fetchone()[0])


def forget_predictions(connection: sqlite3.Connection, run: int, limit: int) -> int:
    """Delete at most `limit` stored predictions of one run; returns how many, 0: none left."""
    return connection.execute(
        "DELETE FROM potato_ray_predictions WHERE (run, instance_id, schema_name) IN"
        " (SELECT run, instance_id, schema_name FROM potato_ray_predictions WHERE run = ? LIMIT ?)",
        (run, limit),
    ).rowcount


def forget_withdrawn(connection: sqlite3.Connection, runs: Iterable[int], limit: int) -> int:
    """Delete at most `limit` predictions of the first of `runs` that failed or was withdrawn; how many."""
    over = (
        "SELECT state <> 'success' OR json_extract(writeback, '$.withdrawn_at') IS NOT NULL"
        " FROM potato_ray_runs WHERE seq = ?"
    )
    for run in runs:
        if connection.execute(over, (run,)).fetchone()[0]:
            return forget_predictions(connection, run, limit)
    return 0


def shown(connection: sqlite3.Connection, instance_id: str) -> dict[str, Any]:
    """What an annotation page shows on an item: payload by scheme. A rejected pair is gone at once."""
    rejected = potato_tables.verdict_clause(connection, "reject", ("l.instance_id", "l.schema_name"))
    rows = connection.execute(
        f"SELECT l.schema_name, l.payload FROM potato_ray_prelabels l"
        f" WHERE l.instance_id = ? AND NOT {rejected} ORDER BY l.schema_name",
        (instance_id,),
    )
    return {row[0]: json.loads(row[1]) for row in rows}
