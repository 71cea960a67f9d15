"""What is asked for often must not read a table as a whole: thousands of runs may be in it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from potato_ray.registry import State, queue, reading, retention, runs, snapshot


@contextmanager
def explained(connection: sqlite3.Connection) -> Iterator[list[str]]:
    """How SQLite carries out each statement of the block: the lines of all plans."""
    said: list[str] = []
    plans: list[str] = []
    connection.set_trace_callback(said.append)
    yield plans
    connection.set_trace_callback(None)
    for statement in said:
        if statement.lstrip().startswith(("SELECT", "WITH", "UPDATE")):
            plans += [row["detail"] for row in connection.execute(f"EXPLAIN QUERY PLAN {statement}")]


@pytest.fixture
def connection(registry, run_in) -> sqlite3.Connection:
    """Of a registry that has runs of every state."""
    for state in State:
        run_in(state)
    return registry._connection


def test_the_status_searches_and_looks_at_a_hundred_ended_runs_at_most(connection):
    with explained(connection) as plans:
        snapshot.take(connection)
    # n is the table, its newest ended runs alone, and newest are those.
    scans = {plan for plan in plans if plan.startswith("SCAN")}
    assert {"SCAN n", "SCAN newest"} <= scans <= {"SCAN n", "SCAN newest", "SCAN sqlite_master"}
    assert not [plan for plan in plans if "potato_ray_journal_by_run" in plan]
    assert f"LIMIT {snapshot._LAST_AMONG})" in snapshot._LAST


@pytest.mark.parametrize(
    "work",
    [
        queue.active,
        retention.ended_with_predictions,
        lambda connection: retention.prunable(connection, 0),
        lambda connection: reading._own(connection, 50, "cancelling", None),
        lambda connection: reading._own(connection, 50, "queued", None),
        lambda connection: connection.execute(f"{runs.SELECT} WHERE {queue.UNENDED}"),
    ],
)
def test_runs_of_a_state_are_found_by_their_state(connection, work):
    with explained(connection) as plans:
        work(connection)
    assert any("potato_ray_runs_by_state (state=?)" in plan for plan in plans)
    assert not [plan for plan in plans if plan.startswith("SCAN r")]


def test_a_begin_and_the_success_before_a_run_are_found_by_the_order_of_begins(registry, reader, run_in):
    connection = registry._connection
    waiting = run_in(State.QUEUED)
    with explained(connection) as plans:
        registry.begin(waiting.run_id, None, 1000)
    assert "SEARCH potato_ray_runs USING COVERING INDEX potato_ray_runs_by_begin" in plans
    with explained(connection) as plans:
        reading._success_before(connection, waiting.run_id)
    assert "SEARCH o USING INDEX potato_ray_runs_by_begin (begun<?)" in plans
