"""Notices of ended runs that are still to be delivered.

A notice is written in the transaction that ends its run and goes when it is delivered or given up, so
that no death of a process loses one. It holds what it tells, since the run's record may be pruned first.
"""

from __future__ import annotations

import json
import sqlite3
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from potato_ray.registry.runs import Run, to_json


@dataclass(frozen=True)
class Notice:
    """What is to be told of one ended run. `delivery_id` stays the same however often it is sent.

    `tries` are those that failed; times are epoch seconds UTC.
    """

    delivery_id: str
    run_id: str
    facts: Mapping[str, Any]
    created_at: float
    tries: int
    next_try_at: float


def facts_of(run: Run) -> dict[str, Any]:
    """What a notice tells of an ended run; None for what it does not have."""
    return {
        "run_id": run.run_id,
        "project": run.project,
        "state": run.state.value,
        "trainer": run.trainer,
        "schemas": run.schemas,
        "headline": run.headline,
        "error": run.error or None,
        "error_code": run.error_code or None,
        "next_step": run.error_next_step or None,
        "finished_at": run.finished_at,
    }


def put(connection: sqlite3.Connection, run: Run, now: float) -> None:
    """Note that the end of this run is to be told."""
    connection.execute(
        "INSERT INTO potato_ray_notices (delivery_id, run_id, facts, created_at, next_try_at)"
        " VALUES (?, ?, ?, ?, ?)",
        (str(uuid.uuid4()), run.run_id, to_json(facts_of(run)), now, now),
    )


def first(connection: sqlite3.Connection) -> Notice | None:
    """The notice whose next try is the earliest."""
    row = connection.execute(
        "SELECT delivery_id, run_id, facts, created_at, tries, next_try_at FROM potato_ray_notices"
        " ORDER BY next_try_at, created_at LIMIT 1"
    ).fetchone()
    if row is None:
        return None
    return Notice(row[0], row[1], json.loads(row[2]), row[3], row[4], row[5])


def postpone(connection: sqlite3.Connection, delivery_id: str, next_try_at: float) -> None:
    """Count a try that failed."""
    connection.execute(
        "UPDATE potato_ray_notices SET tries = tries + 1, next_try_at = ? WHERE delivery_id = ?",
        (next_try_at, delivery_id),
    )


def remove(connection: sqlite3.Connection, delivery_id: str) -> None:
    """Forget a notice that was delivered or given up."""
    connection.execute("DELETE FROM potato_ray_notices WHERE delivery_id = ?", (delivery_id,))
