"""The table of states, walked whole, and the fence of the attempt."""

from __future__ import annotations

import itertools
import sqlite3
from contextlib import closing

import pytest

from potato_ray.errors import Conflict
from potato_ray.registry import ACTIVE, ENDED, State
from potato_ray.registry.states import TRANSITIONS, listed, may_change

PAIRS = list(itertools.product(State, State))


def test_every_state_has_a_row_and_every_end_is_final():
    assert set(TRANSITIONS) == set(State)
    assert all(not TRANSITIONS[state] for state in ENDED)
    assert not ACTIVE & ENDED


def test_every_state_is_reached_from_the_queue_and_leads_to_an_end():
    for state in State:
        assert State.QUEUED in _before(state) | {state}
        assert ENDED & (_after(state) | {state})


def _after(state):
    found, front = set(), {state}
    while front:
        front = set().union(*(TRANSITIONS[each] for each in front)) - found
        found |= front
    return found


def _before(state):
    return {each for each in State if state in _after(each)}


@pytest.mark.parametrize(("old", "new"), PAIRS, ids=lambda state: state.value)
def test_the_registry_allows_what_the_table_allows_and_enters_work_only_by_begin(registry, run_in, old, new):
    run = run_in(old)
    if may_change(old, new) and not (new in ACTIVE and old not in ACTIVE):
        assert registry.transition(run.run_id, run.attempt, new).state is new
        return
    with pytest.raises(Conflict) as refused:
        registry.transition(run.run_id, run.attempt, new)
    assert refused.value.code == ("already_ended" if old in ENDED else "wrong_state")
    assert registry.run(run.run_id) == run


@pytest.mark.parametrize("state", list(State))
def test_begin_works_from_the_queue_and_from_an_offer_alone(registry, run_in, state):
    run = run_in(state)
    begun = registry.begin(run.run_id, None, 1000)
    assert (begun is not None) == (state in (State.QUEUED, State.OFFERED))


def test_times_are_set_where_the_state_says_so(registry, run_in, clock):
    run = run_in(State.BUILDING)
    clock.now += 1
    registry.transition(run.run_id, 1, State.RUNNING)
    registry.update(run.run_id, 1, started_at=clock.now)
    clock.now += 2
    ended = registry.transition(run.run_id, 1, State.ERROR, error_code="killed")
    assert (ended.started_at, ended.finished_at, ended.duration_s) == (clock.now - 2, clock.now, 2.0)


def test_a_run_that_waits_for_its_worker_has_no_start_and_no_duration(registry, run_in):
    run = run_in(State.RUNNING)
    ended = registry.transition(run.run_id, 1, State.CANCELLED)
    assert (run.started_at, ended.started_at, ended.duration_s) == (None, None, None)


def test_a_stale_attempt_is_refused_everywhere_and_changes_nothing(registry, run_in):
    run = run_in(State.BUILDING)
    registry.transition(run.run_id, 1, State.QUEUED)
    now = registry.begin(run.run_id, None, 1)
    stale = [
        lambda: registry.transition(run.run_id, 1, State.ERROR),
        lambda: registry.update(run.run_id, 1, pid=1),
        lambda: registry.record_note(run.run_id, 1, {"event": "log", "message": "late"}),
        lambda: registry.record_items(run.run_id, 1, "train", ["a"]),
        lambda: registry.store_predictions(run.run_id, 1, []),
    ]
    for write in stale:
        with pytest.raises(Conflict) as refused:
            write()
        assert refused.value.code == "stale_attempt"
    assert registry.record_events(run.run_id, 1, 0, [{"event": "log"}])
    assert registry.run(run.run_id) == now


def test_fields_survive_the_way_to_the_file_and_back(registry, run_in):
    run = run_in(State.RUNNING)
    values = {
        "metrics": {"train_accuracy": 0.5, "curve": [1, 2]},
        "scores": {"headline": {"metric": "macro_f1", "value": 0.8}},
        "warnings": ("a", "b"),
        "error": "lone \ud800 surrogate",
        "gpu_uuids": ("GPU-a",),
        "beats_baseline": True,
        "result": {"n_predictions": 3},
        "peak_rss_mb": 12.5,
    }
    stored = registry.update(run.run_id, 1, **values)
    assert stored.error == "lone \\ud800 surrogate"
    assert stored.headline == {"metric": "macro_f1", "value": 0.8}
    for name in set(values) - {"error"}:
        assert getattr(stored, name) == values[name]
    assert registry.run(run.run_id) == stored


def test_numbers_that_json_cannot_hold_become_null(registry, run_in):
    run = registry.update(run_in(State.RUNNING).run_id, 1, metrics={"a": float("nan"), "b": [float("inf")]})
    assert run.metrics == {"a": None, "b": [None]}
    assert run.as_json()["status"] == "running"


@pytest.mark.parametrize("name", ["state", "attempt", "run_id", "cancel_requested_at", "colour"])
def test_a_field_with_a_method_of_its_own_or_none_at_all_cannot_be_set(registry, run_in, name):
    run = run_in(State.RUNNING)
    with pytest.raises(TypeError, match=name):
        registry.update(run.run_id, 1, **{name: 1})


def test_states_are_listed_as_sql_takes_them(path):
    with closing(sqlite3.connect(path)) as connection, connection:
        within = {state: connection.execute(f"SELECT ? IN ({listed(ENDED)})", (state,)) for state in State}
        assert {state for state, answer in within.items() if answer.fetchone()[0]} == ENDED


def test_a_run_that_is_on_offer_again_has_nothing_done_and_waits_from_then_on(registry, run_in, clock):
    run = run_in(State.RUNNING)
    registry.update(run.run_id, 1, host="ws1", step="downloading", current=4.0, total=9.0)
    clock.now += 5
    run = registry.transition(run.run_id, 1, State.OFFERED)
    assert (run.host, run.step, run.current, run.total, run.started_at) == ("", "", 0.0, 0.0, None)
    assert (run.offered_at, run.status) == (clock.now, "queued")
    assert registry.begin(run.run_id, None, 1).attempt == 2


def test_a_run_that_was_cancelled_meanwhile_is_not_offered_again(registry, run_in):
    run = run_in(State.RUNNING)
    registry.request_cancel(run.run_id)
    assert registry.transition(run.run_id, 1, State.OFFERED).state is State.CANCELLED
