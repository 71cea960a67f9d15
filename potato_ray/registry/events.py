"""What a run says: worker events (numbered by the worker) and notes of the server, in one sequence."""

# ruff: noqa: S608  # every name in a statement comes from this package; values are always bound

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping, Sequence
from typing import Any

from potato_ray.registry.runs import Run, clean, encode, to_json
from potato_ray.registry.states import State
from potato_ray.trainers.value_range import finite_number

WARNINGS_MAX = 100
"""The most warnings kept on a run's row; the events hold all of them."""

Said = Mapping[str, Any]
BACK = "back"
"""Marks a status that only puts a step line back: it is no news."""
AGENT_LOST = "agent_lost"
"""Marks the line of the log that says that an agent was lost with a run, which goes to another one."""
_INFO: Said = {"event": "log", "level": "info"}


def record(
    connection: sqlite3.Connection, run: Run, first_seq: int, said: Sequence[Said], now: float
) -> None:
    """Store the worker events that are new; `first_seq` is the number of the first, counted from 0."""
    gap = _gap(first_seq - run.last_seq)
    if gap:
        _append(connection, run, "server", gap, now)
    fresh = said[max(0, run.last_seq - first_seq) :]
    if not fresh:
        return
    _append(connection, run, "worker", fresh, now)
    connection.execute(
        "UPDATE potato_ray_runs SET last_seq = ? WHERE run_id = ?", (first_seq + len(said), run.run_id)
    )
    apply(connection, run, [*gap, *fresh])


def _gap(lost: int) -> list[Said]:
    if lost <= 0:
        return []
    return [{"event": "log", "level": "warning", "message": f"{lost} events of the worker were lost here."}]


def note(connection: sqlite3.Connection, run: Run, said: Said, now: float) -> None:
    """Store an event of the server itself; it moves the step line of a run that has not ended."""
    _append(connection, run, "server", [said], now)
    apply(connection, run, [said])


def put_step_over(
    connection: sqlite3.Connection, run: Run, step: str | None, message: str, now: float
) -> None:
    """Lay a passing step over the run's own step line; None: put that back. See Registry.put_step_over."""
    under = _step_under(connection, run)
    if step is None and under is None:
        return
    if step is None:
        told = [{**_INFO, "message": message}] if message else []
        _append(connection, run, "server", [*told, {"event": "status", "step": under, BACK: True}], now)
    elif under is None:
        _append(connection, run, "server", [{"event": "status", "step": step, "over": run.step}], now)
    shown = under if step is None else step
    connection.execute(
        "UPDATE potato_ray_runs SET step = ? WHERE run_id = ?", (encode("step", shown), run.run_id)
    )


def _step_under(connection: sqlite3.Connection, run: Run) -> str | None:
    """The run's own step line, where another lies over it."""
    row = connection.execute("SELECT seq FROM potato_ray_runs WHERE run_id = ?", (run.run_id,)).fetchone()
    for said in newest(connection, row["seq"], ("status",), 1):
        if said["attempt"] == run.attempt and "over" in said:
            return str(said["over"])
    return None


def tell_end(connection: sqlite3.Connection, run: Run, now: float) -> None:
    """Let the log say how a run ends, where its worker has not; `run` is as it will be."""
    if run.state is State.CANCELLED:
        waited = " while it waited" if run.begun_at is None else ""
        _append(connection, run, "server", [{**_INFO, "message": f"It was cancelled{waited}."}], now)
    elif run.error and not _has_said(connection, run):
        said = {"code": run.error_code, "message": run.error, "next_step": run.error_next_step}
        _append(connection, run, "server", [{"event": "error", **said}], now)


def _has_said(connection: sqlite3.Connection, run: Run) -> bool:
    """Whether the worker of this attempt has told its error itself."""
    row = connection.execute("SELECT seq FROM potato_ray_runs WHERE run_id = ?", (run.run_id,)).fetchone()
    told = newest(connection, row["seq"], ("error",), 1)
    return any((each["attempt"], each.get("code")) == (run.attempt, run.error_code) for each in told)


def _append(connection: sqlite3.Connection, run: Run, source: str, said: Sequence[Said], now: float) -> None:
    row = connection.execute(
        "SELECT seq, n_events FROM potato_ray_runs WHERE run_id = ?", (run.run_id,)
    ).fetchone()
    connection.executemany(
        "INSERT INTO potato_ray_events (run, seq, attempt, source, t, event, body)"
        " VALUES (?, ?, ?, ?, ?, ?, ?)",
        [
            (
                row["seq"],
                row["n_events"] + number,
                run.attempt,
                source,
                _time(each, now),
                _name(each),
                _body(each),
            )
            for number, each in enumerate(said, start=1)
        ],
    )
    connection.execute(
        "UPDATE potato_ray_runs SET n_events = n_events + ? WHERE run_id = ?", (len(said), run.run_id)
    )


def _name(said: Said) -> str:
    return str(clean(str(said.get("event", ""))))


def _time(said: Said, now: float) -> float:
    return _number(said.get("t"), now)


def _body(said: Said) -> str:
    return to_json({key: value for key, value in said.items() if key not in ("v", "event", "t")})


def _number(value: object, default: float) -> float:
    number = finite_number(value)
    return default if number is None else number


def apply(connection: sqlite3.Connection, run: Run, said: Sequence[Said]) -> None:
    """Bring the run's row up to what was said: step line, progress, metrics, warnings."""
    changes: dict[str, Any] = {}
    metrics, warnings = dict(run.metrics), list(run.warnings)
    for each in said:
        name = each.get("event")
        if name == "status" and not run.ended:
            # A new step has no progress yet; what the step before had would be taken for its own.
            changes.update({"current": 0.0, "total": 0.0, "eta_s": None})
            changes.update({key: str(each[key]) for key in ("phase", "step") if key in each})
        elif name == "progress" and not run.ended:
            changes.update(_progress(each))
        elif name == "metric":
            metrics[str(each.get("name", ""))] = each.get("value")
        elif name == "log" and each.get("level") == "warning":
            warnings.append(str(each.get("message", "")))
        elif name == "result" and isinstance(each.get("metrics"), Mapping):
            metrics.update(each["metrics"])
    if metrics != run.metrics:
        changes["metrics"] = metrics
    distinct = tuple(dict.fromkeys(warnings))[:WARNINGS_MAX]
    if distinct != run.warnings:
        changes["warnings"] = distinct
    if changes:
        connection.execute(
            f"UPDATE potato_ray_runs SET {', '.join(f'{name} = ?' for name in changes)} WHERE run_id = ?",
            [*(encode(name, value) for name, value in changes.items()), run.run_id],
        )


def _progress(said: Said) -> dict[str, float | None]:
    eta = said.get("eta_s")
    return {
        "current": _number(said.get("current"), 0.0),
        "total": _number(said.get("total"), 0.0),
        "eta_s": None if eta is None else _number(eta, 0.0),
    }


def read(connection: sqlite3.Connection, seq: int, after: int, limit: int) -> list[dict[str, Any]]:
    """At most `limit` events of the run with number `seq`, those after event `after`.

    Each is the event as it was said, with `id` (counted from 1 within the run), `attempt` and
    `source` (worker or server).
    """
    rows = connection.execute(
        "SELECT seq, attempt, source, t, event, body FROM potato_ray_events"
        " WHERE run = ? AND seq > ? ORDER BY seq LIMIT ?",
        (seq, after, limit),
    )
    return [as_told(row) for row in rows]


def newest(
    connection: sqlite3.Connection, seq: int, names: Sequence[str], limit: int
) -> list[dict[str, Any]]:
    """The last `limit` events of these names of the run with number `seq`, in their order."""
    rows = connection.execute(
        "SELECT seq, attempt, source, t, event, body FROM potato_ray_events"
        f" WHERE run = ? AND event IN ({', '.join('?' * len(names))}) ORDER BY seq DESC LIMIT ?",
        (seq, *names, limit),
    )
    return [as_told(row) for row in rows][::-1]


def count_agents_lost(connection: sqlite3.Connection, seq: int) -> int:
    """How many agents were lost with the run with number `seq` before anything was heard of a worker."""
    row = connection.execute(
        "SELECT count(*) FROM potato_ray_events WHERE run = ? AND source = 'server' AND event = 'log'"
        f" AND json_extract(body, '$.{AGENT_LOST}')",
        (seq,),
    ).fetchone()
    return int(row[0])


def as_told(row: sqlite3.Row) -> dict[str, Any]:
    """An event as it was said, from its row, with its `id`, `attempt` and `source`."""
    return {
        **json.loads(row["body"]),
        "id": row["seq"],
        "attempt": row["attempt"],
        "source": row["source"],
        "t": row["t"],
        "event": row["event"],
    }
