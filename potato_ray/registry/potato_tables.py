"""Potato's own tables in project.sqlite: what we mirror into them and what we read from them.

A Potato server on the same file prunes these tables and replaces predictions by its own rules, so
nothing of ours depends on what it leaves; and a mirror that its version of a table refuses is given
up for that write, never the write itself. Rows carry `project`, the task's name; readers take every
project's rows, because renaming a task must not hide its runs.
"""

# ruff: noqa: S608  # every name in a statement comes from this package; values are always bound

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from potato_ray.registry.runs import Run, to_json
from potato_ray.registry.states import State

_TABLES = {
    "training_runs": """
        project TEXT NOT NULL, run_id TEXT NOT NULL, trainer TEXT NOT NULL,
        backend TEXT NOT NULL DEFAULT 'local', schema_names TEXT NOT NULL DEFAULT '[]',
        kinds TEXT NOT NULL DEFAULT '[]', status TEXT NOT NULL, trigger TEXT NOT NULL DEFAULT 'manual',
        created_at REAL NOT NULL, started_at REAL, finished_at REAL,
        n_train INTEGER NOT NULL DEFAULT 0, n_val INTEGER NOT NULL DEFAULT 0,
        n_test INTEGER NOT NULL DEFAULT 0, split_seed INTEGER NOT NULL DEFAULT 0,
        params TEXT NOT NULL DEFAULT '{}', metrics TEXT NOT NULL DEFAULT '{}',
        artifact_dir TEXT NOT NULL DEFAULT '',
        model_version TEXT NOT NULL DEFAULT '', bundle_digest TEXT NOT NULL DEFAULT '',
        error TEXT NOT NULL DEFAULT '', error_code TEXT NOT NULL DEFAULT '', pid INTEGER,
        host TEXT NOT NULL DEFAULT '', PRIMARY KEY (project, run_id)""",
    "training_run_items": """
        project TEXT NOT NULL, run_id TEXT NOT NULL, instance_id TEXT NOT NULL, split TEXT NOT NULL,
        PRIMARY KEY (project, run_id, instance_id)""",
    "training_predictions": """
        project TEXT NOT NULL, instance_id TEXT NOT NULL, schema_name TEXT NOT NULL, run_id TEXT NOT NULL,
        payload TEXT NOT NULL, confidence REAL, created_at REAL NOT NULL,
        PRIMARY KEY (project, instance_id, schema_name)""",
}

_STATUS = {
    State.FINISHING: "evaluating",
    State.INTERRUPTED: "error",
}
"""Potato's word for a state where it differs from ours."""

_NOT_MIRRORED = frozenset({State.QUEUED, State.OFFERED})
"""Potato knows no queue: a run appears there once it begins."""


def ensure(connection: sqlite3.Connection) -> None:
    """Create the three tables where Potato has not made them yet (inside a transaction)."""
    for name, columns in _TABLES.items():
        connection.execute(f"CREATE TABLE IF NOT EXISTS {name} ({columns})")
    # Potato's key begins with project and run; the train check asks by item.
    connection.execute(
        "CREATE INDEX IF NOT EXISTS potato_ray_potato_train_items ON training_run_items (instance_id)"
        " WHERE split = 'train'"
    )


@contextmanager
def _tolerant(connection: sqlite3.Connection) -> Iterator[None]:
    """Give up what the block wrote, and nothing else, when Potato's table refuses it."""
    connection.execute("SAVEPOINT mirror")
    try:
        yield
    except (sqlite3.IntegrityError, sqlite3.OperationalError):
        connection.execute("ROLLBACK TO mirror")
    finally:
        connection.execute("RELEASE mirror")


def mirror_run(connection: sqlite3.Connection, run: Run, artifact_dir: str) -> None:
    """Write a run's row as Potato keeps it; `artifact_dir` is absolute there."""
    if run.state in _NOT_MIRRORED:
        forget_run(connection, run.run_id)
        return
    interrupted = run.state is State.INTERRUPTED
    row = {
        "project": run.project,
        "run_id": run.run_id,
        "trainer": run.trainer,
        "backend": run.backend,
        "schema_names": to_json(run.schemas),
        "kinds": to_json(run.kinds),
        "status": _STATUS.get(run.state, run.state.value),
        "trigger": run.trigger,
        "created_at": run.created_at,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "n_train": run.n_train or 0,
        "n_val": run.n_val or 0,
        "n_test": run.n_test or 0,
        "split_seed": run.split_seed,
        "params": to_json(run.params),
        "metrics": to_json(run.metrics),
        "artifact_dir": artifact_dir,
        "model_version": run.model_version,
        "bundle_digest": run.bundle_digest,
        "error": run.error,
        "error_code": "interrupted" if interrupted else run.error_code,
        "pid": run.pid,
        "host": run.host,
    }
    with _tolerant(connection):
        connection.execute(
            f"INSERT OR REPLACE INTO training_runs ({', '.join(row)}) VALUES ({', '.join('?' * len(row))})",
            tuple(row.values()),
        )


def mirror_items(connection: sqlite3.Connection, run: Run, split: str, ids: Iterable[str]) -> None:
    """Write the split of a run's items."""
    rows = [(run.project, run.run_id, instance_id, split) for instance_id in ids]
    with _tolerant(connection):
        connection.executemany(
            "INSERT OR REPLACE INTO training_run_items (project, run_id, instance_id, split)"
            " VALUES (?, ?, ?, ?)",
            rows,
        )


def put_prelabels(
    connection: sqlite3.Connection, rows: Iterable[tuple[str, str, str, str, str, float | None, float]]
) -> None:
    """Write published pre-labels: (project, instance_id, schema, run_id, payload, confidence, created_at).

    A newer prediction that Potato made itself stays.
    """
    with _tolerant(connection):
        connection.executemany(
            "INSERT INTO training_predictions"
            " (project, instance_id, schema_name, run_id, payload, confidence, created_at)"
            " VALUES (?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT (project, instance_id, schema_name) DO UPDATE SET run_id = excluded.run_id,"
            " payload = excluded.payload, confidence = excluded.confidence, created_at = excluded.created_at"
            " WHERE training_predictions.created_at <= excluded.created_at"
            " OR training_predictions.run_id IN (SELECT run_id FROM potato_ray_runs)",
            rows,
        )


def take_off_prelabels(connection: sqlite3.Connection, rows: Iterable[tuple[str, str, str, float]]) -> None:
    """Take pre-labels off: (project, instance_id, schema, not newer than). A newer one of Potato's stays."""
    with _tolerant(connection):
        connection.executemany(
            "DELETE FROM training_predictions WHERE project = ? AND instance_id = ? AND schema_name = ?"
            " AND (created_at <= ? OR run_id IN (SELECT run_id FROM potato_ray_runs))",
            rows,
        )


def take_off_own_prelabels(connection: sqlite3.Connection, rows: Iterable[tuple[str, str, str]]) -> None:
    """Take off the pre-labels that runs of ours left: (project, instance_id, schema)."""
    with _tolerant(connection):
        connection.executemany(
            "DELETE FROM training_predictions WHERE project = ? AND instance_id = ? AND schema_name = ?"
            " AND run_id IN (SELECT run_id FROM potato_ray_runs)",
            rows,
        )


def forget_run(connection: sqlite3.Connection, run_id: str) -> None:
    """Remove a run's row; its items follow by `forget_items`."""
    with _tolerant(connection):
        connection.execute("DELETE FROM training_runs WHERE run_id = ?", (run_id,))


def forget_items(connection: sqlite3.Connection, project: str, run_id: str, limit: int) -> int:
    """Remove at most `limit` of a run's item rows; returns how many."""
    cursor = connection.cursor()
    with _tolerant(connection):
        cursor.execute(
            "DELETE FROM training_run_items WHERE (project, run_id, instance_id) IN"
            " (SELECT project, run_id, instance_id FROM training_run_items"
            "  WHERE project = ? AND run_id = ? LIMIT ?)",
            (project, run_id, limit),
        )
    return max(0, cursor.rowcount)


def columns(connection: sqlite3.Connection, table: str) -> frozenset[str]:
    """The column names of a table; empty where there is none."""
    return frozenset(row["name"] for row in connection.execute(f"PRAGMA table_info({table})"))


def verdict_clause(connection: sqlite3.Connection, verdict: str, pair: tuple[str, str]) -> str:
    """SQL that says whether any reviewer gave `verdict` to the pair (two SQL expressions).

    `reject` also matches `rejected`. A verdict without a scheme is about every scheme of the item.
    "0" where Potato keeps no verdicts.
    """
    present = columns(connection, "model_review_verdicts")
    if not {"instance_id", "verdict"} <= present:
        return "0"
    item, schema = pair
    where = f"v.instance_id = {item} AND v.verdict IN ('{verdict}', '{verdict}ed')"
    if "schema_name" in present:
        where += f" AND v.schema_name IN ({schema}, '')"
    return f"EXISTS (SELECT 1 FROM model_review_verdicts v WHERE {where})"


def corrected_items(connection: sqlite3.Connection) -> frozenset[str]:
    """The items that a reviewer corrected: they always go to train."""
    if not {"instance_id", "verdict"} <= columns(connection, "model_review_verdicts"):
        return frozenset()
    found = connection.execute(
        "SELECT DISTINCT instance_id FROM model_review_verdicts WHERE verdict IN ('correct', 'corrected')"
    )
    return frozenset(str(row[0]) for row in found)


def potato_runs(connection: sqlite3.Connection, trainer: str | None = None) -> list[Run]:
    """The runs that Potato made (it retains few), in no order: rows of its table that are not ours."""
    if not {"run_id", "trainer", "status", "created_at"} <= columns(connection, "training_runs"):
        return []
    where, values = ["1"], []
    if columns(connection, "potato_ray_runs"):
        where.append("run_id NOT IN (SELECT run_id FROM potato_ray_runs)")
    if trainer is not None:
        where.append("trainer = ?")
        values.append(trainer)
    rows = connection.execute(f"SELECT * FROM training_runs WHERE {' AND '.join(where)}", values)
    return [_from_potato(dict(row)) for row in rows]


def potato_run(connection: sqlite3.Connection, run_id: str) -> Run | None:
    """One run that Potato made, or None."""
    if "run_id" not in columns(connection, "training_runs"):
        return None
    row = connection.execute("SELECT * FROM training_runs WHERE run_id = ? LIMIT 1", (run_id,)).fetchone()
    return _from_potato(dict(row)) if row is not None else None


def _from_potato(row: Mapping[str, Any]) -> Run:
    return Run(
        run_id=str(row["run_id"]),
        project=str(row.get("project", "")),
        trainer=str(row["trainer"]),
        schemas=tuple(map(str, _json(row.get("schema_names"), []))),
        kinds=tuple(map(str, _json(row.get("kinds"), []))),
        params=_json(row.get("params"), {}),
        backend=str(row.get("backend") or "local"),
        state=_state(str(row["status"])),
        attempt=1,
        trigger=str(row.get("trigger") or "manual"),
        created_at=float(row["created_at"]),
        started_at=row.get("started_at"),
        finished_at=row.get("finished_at"),
        metrics=_json(row.get("metrics"), {}),
        error=str(row.get("error") or ""),
        error_code=str(row.get("error_code") or ""),
        n_train=int(row.get("n_train") or 0),
        n_val=int(row.get("n_val") or 0),
        n_test=int(row.get("n_test") or 0),
        split_seed=int(row.get("split_seed") or 0),
        bundle_digest=str(row.get("bundle_digest") or ""),
        artifact_dir=str(row.get("artifact_dir") or ""),
        model_version=str(row.get("model_version") or ""),
        host=str(row.get("host") or ""),
        pid=row.get("pid"),
        made_by="potato",
    )


def _state(word: str) -> State:
    try:
        return State(word)
    except ValueError:
        return State.ERROR


def _json(text: object, default: Any) -> Any:
    """The JSON in a column, or `default` where it holds something of another type."""
    try:
        value = json.loads(str(text))
    except ValueError:
        return default
    return value if isinstance(value, type(default)) else default
