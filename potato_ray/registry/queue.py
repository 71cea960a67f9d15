"""The queue and the life of a run's row: create, begin, change state, cancel, reserve.

Every function works inside the caller's transaction, so what it checks still holds when it writes.
"""

# ruff: noqa: S608  # every name in a statement comes from this package; values are always bound

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from potato_ray.errors import Conflict, NotFound, StartRefused
from potato_ray.registry import events, potato_tables, runs
from potato_ray.registry.runs import NewRun, Reservation, Reserved, Run
from potato_ray.registry.states import ACTIVE, ENDED, WAITING, State, listed, may_change

_NOTHING_DONE: Mapping[str, Any] = {
    "step": "",
    "phase": "",
    "current": 0.0,
    "total": 0.0,
    "eta_s": None,
    "started_at": None,
    "host": "",
}
"""The fields of a run that waits, also of one that waits again."""

UNENDED = f"r.state IN ({listed(frozenset(State) - ENDED)})"

# A card's UUID is unique in the world; a made-up name (an index) only on its own backend.
_SAME_GPU = "gpu_uuid = ? AND (backend = ? OR gpu_uuid LIKE 'GPU-%' OR gpu_uuid LIKE 'MIG-%')"


def find(connection: sqlite3.Connection, run_id: str) -> Run:
    """The run; raises NotFound."""
    row = connection.execute(f"{runs.SELECT} WHERE r.run_id = ?", (run_id,)).fetchone()
    if row is None:
        raise NotFound(
            f"No such run: {run_id}", code="unknown_run", next_step="List the runs for their identifiers."
        )
    return runs.from_row(row)


def find_ours(connection: sqlite3.Connection, run_id: str) -> Run:
    """As `find`; raises Conflict for a run that Potato made: it is listed, and only Potato can change it."""
    try:
        return find(connection, run_id)
    except NotFound:
        if potato_tables.potato_run(connection, run_id) is None:
            raise
    raise Conflict(
        f"Run {run_id} was made by Potato itself.",
        code="wrong_state",
        next_step="Cancel it, or withdraw its predictions, in Potato.",
    )


def seq_of(connection: sqlite3.Connection, run_id: str) -> int:
    """The number by which our tables know a run; raises NotFound."""
    row = connection.execute("SELECT seq FROM potato_ray_runs WHERE run_id = ?", (run_id,)).fetchone()
    if row is None:
        find(connection, run_id)
    return int(row["seq"])


def fenced(connection: sqlite3.Connection, run_id: str, attempt: int) -> Run:
    """The run, when `attempt` is its present one; raises NotFound, or Conflict for a stale attempt."""
    run = find(connection, run_id)
    if run.attempt != attempt:
        raise Conflict(
            f"Attempt {attempt} of run {run_id} is not the present one.",
            code="stale_attempt",
            evidence=f"The run is at attempt {run.attempt}.",
            next_step="Stop this attempt; another one has taken over.",
        )
    return run


def fenced_active(connection: sqlite3.Connection, run_id: str, attempt: int) -> Run:
    """As `fenced`; raises Conflict also when the run is not at work."""
    run = fenced(connection, run_id, attempt)
    if run.state not in ACTIVE:
        raise Conflict(
            f"Run {run_id} is {run.status}; nothing more is recorded for it.",
            code="already_ended" if run.ended else "wrong_state",
            next_step="Start a new run." if run.ended else "Begin the run first.",
        )
    return run


def create(
    connection: sqlite3.Connection,
    project: str,
    new: NewRun,
    now: float,
    *,
    queue_max: int,
    allow_queue: bool,
    max_concurrent: int,
    for_agent: bool = False,
) -> Run:
    """Put a run in the queue; raises StartRefused (busy, queue_full). See Registry.create_run."""
    if new.idempotency_key is not None:
        made = made_with(connection, new.idempotency_key, max_concurrent)
        if made is not None:
            return made
    free = _free(connection, max_concurrent)
    waiting = _count(connection, "state = 'queued'")
    waits = waiting > 0 or free == 0
    if waits and not allow_queue:
        raise StartRefused(
            "A training run is already in progress.",
            code="busy",
            next_step="Wait for its end, cancel it, or start with queue: true.",
        )
    kept = max(0, waiting - free) + (_count(connection, "state = 'offered'") if for_agent else 0)
    if (waits or for_agent) and kept >= queue_max:
        raise StartRefused(
            f"{kept} runs are waiting already.",
            code="queue_full",
            evidence=f"model_training.queue_max is {queue_max}.",
            next_step="Wait for a run to end, or cancel a waiting one.",
        )
    run_id = _insert(connection, project, new, now)
    return _behind(find(connection, run_id), free)


def _behind(run: Run, free: int) -> Run:
    """The run with its place behind those that free slots are about to take out of the queue."""
    return replace(run, position=max(0, run.position - free))


def made_with(connection: sqlite3.Connection, key: str, max_concurrent: int) -> Run | None:
    """The run that a start with this idempotency key has made; see Registry.made_with."""
    row = connection.execute(f"{runs.SELECT} WHERE r.idempotency_key = ?", (key,)).fetchone()
    return None if row is None else _behind(runs.from_row(row), _free(connection, max_concurrent))


def _free(connection: sqlite3.Connection, max_concurrent: int) -> int:
    return max(0, max_concurrent - active(connection))


def _insert(connection: sqlite3.Connection, project: str, new: NewRun, now: float) -> str:
    values = {
        "run_id": _new_id(connection, now),
        "project": project,
        "trainer": new.trainer,
        "schemas": new.schemas,
        "kinds": new.kinds,
        "params": new.params,
        "backend": new.backend,
        "trigger": new.trigger,
        "accept_licence": new.accept_licence,
        "idempotency_key": new.idempotency_key,
        "split_seed": new.split_seed,
        "state": State.QUEUED.value,
        "created_at": now,
    }
    names = ", ".join(f'"{name}"' for name in values)
    connection.execute(
        f"INSERT INTO potato_ray_runs ({names}) VALUES ({', '.join('?' * len(values))})",
        [runs.encode(name, value) for name, value in values.items()],
    )
    return str(values["run_id"])


def _new_id(connection: sqlite3.Connection, now: float) -> str:
    """A UTC stamp and six hex digits, as Potato names its runs; unlike any id in either table."""
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%S")
    for _ in range(100):
        run_id = f"{stamp}-{secrets.token_hex(3)}"
        taken = connection.execute(
            "SELECT 1 FROM potato_ray_runs WHERE run_id = :id"
            " UNION SELECT 1 FROM training_runs WHERE run_id = :id",
            {"id": run_id},
        ).fetchone()
        if taken is None:
            return run_id
    raise Conflict("No free run id was found.", next_step="Start the run again.")


def _count(connection: sqlite3.Connection, where: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM potato_ray_runs WHERE {where}").fetchone()[0])


def active(connection: sqlite3.Connection) -> int:
    """How many runs hold a slot."""
    return _count(connection, f"state IN ({listed(ACTIVE)})")


def begin(
    connection: sqlite3.Connection, run: Run, place: Reservation | None, max_concurrent: int, now: float
) -> Run | None:
    """Take a waiting or offered run out of the queue; None when that is not possible any more."""
    if run.state not in WAITING or active(connection) >= max_concurrent:
        return None
    attempt = run.attempt + 1
    if place is not None and not reserve(connection, run.run_id, attempt, place, now):
        return None
    connection.execute(
        "UPDATE potato_ray_runs SET state = 'building', attempt = ?, begun_at = ?,"
        " begun = 1 + (SELECT max(begun) FROM potato_ray_runs), device = ?, gpu_uuids = ?,"
        " started_at = NULL, finished_at = NULL, step = '', phase = '', current = 0, total = 0, eta_s = NULL,"
        " metrics = '{}', scores = '{}', headline = NULL, warnings = '[]', error = '', error_code = '',"
        " error_evidence = '', error_next_step = '', pid = NULL, peak_rss_mb = 0, beats_baseline = NULL,"
        " n_train = NULL, n_val = NULL, n_test = NULL, n_unlabeled = NULL, result = NULL, artifact_uri = '',"
        " writeback = NULL, writeback_progress = NULL, last_seq = 0 WHERE run_id = ?",
        (
            attempt,
            now,
            place.device if place else "",
            runs.to_json(place.gpu_uuids if place else ()),
            run.run_id,
        ),
    )
    return find(connection, run.run_id)


def transition(
    connection: sqlite3.Connection, run: Run, new_state: State, values: Mapping[str, Any], now: float
) -> Run:
    """Change the state by the table of states and set fields; raises Conflict, TypeError."""
    if not may_change(run.state, new_state):
        raise _forbidden(run, new_state)
    if new_state in ACTIVE and run.state not in ACTIVE:
        # Slots and GPUs are counted in begin; no other way leads to them.
        raise _forbidden(run, new_state)
    if new_state in WAITING and run.cancel_requested_at is not None:
        new_state = State.CANCELLED
    changes = dict(values)
    if new_state in ENDED:
        changes.setdefault("finished_at", now)
        changes.setdefault("eta_s", None)
    if new_state in WAITING:
        changes = {**_NOTHING_DONE, **changes}
    set_fields(connection, run.run_id, changes)
    if new_state is State.OFFERED:
        connection.execute("UPDATE potato_ray_runs SET offered_at = ? WHERE run_id = ?", (now, run.run_id))
    if new_state in ENDED:
        # Before the state, so that whoever follows the run until its end hears of it.
        events.tell_end(connection, replace(find(connection, run.run_id), state=new_state), now)
    connection.execute("UPDATE potato_ray_runs SET state = ? WHERE run_id = ?", (new_state.value, run.run_id))
    return find(connection, run.run_id)


def _forbidden(run: Run, new_state: State) -> Conflict:
    return Conflict(
        f"Run {run.run_id} is {run.status} and can't become {new_state.value}.",
        code="already_ended" if run.ended else "wrong_state",
        next_step="Start a new run." if run.ended else "Look at the run's page for its present state.",
    )


def set_fields(connection: sqlite3.Connection, run_id: str, values: Mapping[str, Any]) -> None:
    """Set fields of a run; the scores bring their headline with them.

    Raises TypeError for a field that has its own method or does not exist.
    """
    unknown = sorted(set(values) - runs.SETTABLE)
    if unknown:
        raise TypeError(f"a run's {', '.join(unknown)} can't be set this way")
    if not values:
        return
    scores = values.get("scores")
    if isinstance(scores, Mapping) and "headline" not in values:
        values = {**values, "headline": scores.get("headline")}
    connection.execute(
        f"UPDATE potato_ray_runs SET {', '.join(f'{name} = ?' for name in values)} WHERE run_id = ?",
        [*(runs.encode(name, value) for name, value in values.items()), run_id],
    )


def request_cancel(connection: sqlite3.Connection, run: Run, now: float) -> Run:
    """A run without a slot is cancelled at once, an active one is marked; Conflict when it (nearly) ended."""
    if run.ended:
        raise Conflict(
            f"Run {run.run_id} has already ended.",
            code="already_ended",
            evidence=f"It is {run.state.value}.",
            next_step="Nothing is left to cancel.",
        )
    if run.state is State.FINISHING and run.cancel_requested_at is None:
        raise Conflict(
            f"Run {run.run_id} has finished training and is being scored and written back.",
            code="already_ended",
            next_step="Withdraw its predictions afterwards, if they are not wanted.",
        )
    connection.execute(
        "UPDATE potato_ray_runs SET cancel_requested_at = coalesce(cancel_requested_at, ?) WHERE run_id = ?",
        (now, run.run_id),
    )
    run = find(connection, run.run_id)
    return run if run.state in ACTIVE else transition(connection, run, State.CANCELLED, {}, now)


def reserve(
    connection: sqlite3.Connection, run_id: str, attempt: int, place: Reservation, now: float
) -> bool:
    """Reserve every GPU of `place` or none; False when another run holds one of them."""
    seq = seq_of(connection, run_id)
    for uuid in place.gpu_uuids:
        held = connection.execute(
            f"SELECT run, attempt FROM potato_ray_reservations WHERE {_SAME_GPU}", (uuid, place.backend)
        ).fetchall()
        if any((row["run"], row["attempt"]) != (seq, attempt) for row in held):
            return False
    connection.executemany(
        "INSERT OR IGNORE INTO potato_ray_reservations (backend, gpu_uuid, run, attempt, since)"
        " VALUES (?, ?, ?, ?, ?)",
        [(place.backend, uuid, seq, attempt, now) for uuid in place.gpu_uuids],
    )
    return True


def release(connection: sqlite3.Connection, run_id: str, attempt: int | None) -> int:
    """Free the GPUs of one attempt, None: of all attempts; returns how many."""
    return connection.execute(
        "DELETE FROM potato_ray_reservations WHERE attempt = coalesce(?, attempt)"
        " AND run = (SELECT seq FROM potato_ray_runs WHERE run_id = ?)",
        (attempt, run_id),
    ).rowcount


def reservations(connection: sqlite3.Connection) -> list[Reserved]:
    """Every attempt that holds GPUs, oldest first."""
    rows = connection.execute(
        "SELECT v.backend, r.run_id, v.attempt, min(v.since), json_group_array(v.gpu_uuid)"
        " FROM potato_ray_reservations v JOIN potato_ray_runs r ON r.seq = v.run"
        " GROUP BY v.backend, v.run, v.attempt ORDER BY min(v.since), v.run"
    )
    return [Reserved(row[0], row[1], row[2], row[3], tuple(sorted(json.loads(row[4])))) for row in rows]


def taken(connection: sqlite3.Connection, backend: str) -> frozenset[str]:
    """The GPUs that a new run on `backend` can't have."""
    rows = connection.execute(
        "SELECT gpu_uuid FROM potato_ray_reservations"
        " WHERE backend = ? OR gpu_uuid LIKE 'GPU-%' OR gpu_uuid LIKE 'MIG-%'",
        (backend,),
    )
    return frozenset(row[0] for row in rows)
