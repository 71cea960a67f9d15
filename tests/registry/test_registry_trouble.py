"""A disk that takes nothing, and a clock that is set back: what the registry says, and what it keeps."""

from __future__ import annotations

import contextlib
import sqlite3

import pytest

from potato_ray.errors import ProjectUnwritable
from potato_ray.registry import RegistryReader, State

HOURS_S = 3600.0
TOO_MUCH = "x" * 200_000


@pytest.fixture
def full(path, registry):
    """The registry's file may grow no further, which SQLite reports as it reports a full disk."""
    connection = registry._connection
    pages = connection.execute("PRAGMA page_count").fetchone()[0]
    connection.execute(f"PRAGMA max_page_count = {pages}")
    return registry


def test_a_full_disk_is_named_and_nothing_of_the_transaction_is_left(full, run_in):
    run = run_in(State.RUNNING)
    with pytest.raises(ProjectUnwritable, match="disk of the project is full") as refused:
        full.record_note(run.run_id, 1, {"event": "log", "message": TOO_MUCH})
    assert refused.value.code == "disk_full"
    assert full.run(run.run_id) == run
    full._connection.execute("PRAGMA max_page_count = 100000")
    full.record_note(run.run_id, 1, {"event": "log", "message": TOO_MUCH})


def test_a_registry_that_must_not_be_written_is_named_so(registry, queue_run):
    registry._connection.execute("PRAGMA query_only = ON")
    with pytest.raises(ProjectUnwritable, match="cannot be written to") as refused:
        queue_run()
    assert (refused.value.code, registry.queued()) == ("project_unwritable", [])


def test_a_failure_of_another_kind_passes_as_it_is(registry):
    registry._connection.execute("DROP TABLE potato_ray_pins")
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        registry.add_pins(["i1"])


def test_a_run_under_which_the_clock_was_set_back_has_no_duration(run_in, registry, clock):
    run = run_in(State.RUNNING)
    registry.update(run.run_id, 1, started_at=clock.now)
    clock.now -= 5 * HOURS_S
    run = registry.transition(run.run_id, 1, State.ERROR)
    assert run.finished_at < run.started_at
    assert run.duration_s is None
    assert run.as_json()["duration_s"] is None


def test_the_list_keeps_the_order_of_the_starts_when_the_clock_is_set_back(run_in, path, clock):
    made = []
    for jump_s in (0.0, 5 * HOURS_S, -7 * HOURS_S, 60.0):
        clock.now += jump_s
        made.append(run_in(State.SUCCESS).run_id)
    assert [run.run_id for run in RegistryReader(path).runs()] == made[::-1]
    assert [run.run_id for run in RegistryReader(path).runs(limit=2)] == made[:1:-1]


def test_the_run_that_ended_last_is_it_also_when_the_clock_is_set_back(run_in, registry, path, clock):
    run_in(State.SUCCESS)
    clock.now -= 5 * HOURS_S
    last = run_in(State.SUCCESS).run_id
    seen = RegistryReader(path).snapshot().last
    assert seen is not None
    assert seen.run_id == last


def test_runs_wait_in_the_order_of_their_starts_whatever_the_clock_does(run_in, queue_run, registry, clock):
    run_in(State.RUNNING)
    made = []
    for jump_s in (0.0, -3 * HOURS_S, 9 * HOURS_S):
        clock.now += jump_s
        made.append(queue_run().run_id)
    assert [run.run_id for run in registry.queued()] == made


def test_runs_that_ended_before_there_was_a_journal_go_by_their_times(run_in, registry, path, clock):
    run_in(State.SUCCESS)
    clock.now += 1.0
    last = run_in(State.SUCCESS).run_id
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("DELETE FROM potato_ray_journal")
    seen = RegistryReader(path).snapshot().last
    assert seen is not None
    assert seen.run_id == last
