"""What is pruned, and what never is."""

from __future__ import annotations

import sqlite3

import pytest
from publishing import publish
from recorded_items import items_of

from potato_ray.registry import Reservation, State, StoredPrediction
from potato_ray.registry.pruning import Pruning
from potato_ray.registry.retention import orphans
from potato_ray.writeback import WritebackSettings, withdraw

SHOW = WritebackSettings(("sentiment",))


def labels(*ids):
    return [StoredPrediction(each, "sentiment", {"label": "positive"}, 0.9) for each in ids]


@pytest.fixture
def succeed(registry, run_in):
    """A successful run that trained on some items and published predictions for others."""

    def make(predicted=(), trained=(), headline=None):
        run = run_in(State.FINISHING)
        registry.record_items(run.run_id, 1, "train", trained)
        registry.store_predictions(run.run_id, 1, labels(*predicted))
        report = publish(registry, run.run_id, 1, SHOW, headline)
        registry.transition(run.run_id, 1, State.SUCCESS, writeback=report.as_json())
        return run.run_id

    return make


def count(path, table):
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
    finally:
        connection.close()


def test_the_newest_ended_runs_stay(registry, reader, run_in):
    runs = [run_in(State.SUCCESS).run_id for _ in range(4)]
    assert registry.prune(2) == runs[:2]
    assert [run.run_id for run in reader.runs()] == runs[:1:-1]


def test_failures_do_not_push_successes_out(registry, reader, run_in):
    good = [run_in(State.SUCCESS).run_id for _ in range(2)]
    bad = [run_in(state).run_id for state in (State.ERROR, State.CANCELLED, State.INTERRUPTED)]
    assert registry.prune(2) == bad[:1]
    assert {run.run_id for run in reader.runs()} == {*good, *bad[1:]}


def test_a_run_that_has_not_ended_is_never_pruned(registry, reader, run_in):
    waiting, working = run_in(State.QUEUED), run_in(State.RUNNING)
    assert registry.prune(0) == []
    assert {run.run_id for run in reader.runs()} == {waiting.run_id, working.run_id}


def test_a_run_whose_predictions_are_stored_is_never_pruned(registry, succeed, run_in):
    kept = succeed(predicted=["a"])
    run_in(State.SUCCESS)
    assert kept not in registry.prune(0)
    assert withdraw(registry, kept) == 1
    assert registry.prune(0) == [kept]


def test_a_run_that_still_holds_a_gpu_is_not_pruned(registry, queue_run):
    run = queue_run()
    registry.begin(run.run_id, Reservation("local", ("GPU-a",)), 1)
    registry.transition(run.run_id, 1, State.ERROR)
    assert registry.prune(0) == []
    registry.release(run.run_id, 1)
    assert registry.prune(0) == [run.run_id]


def test_superseded_predictions_go_and_free_their_run(registry, reader, succeed):
    old, new = succeed(predicted=["a", "b"]), succeed(predicted=["a", "b"])
    assert registry.prune(1) == [old]
    assert [each.instance_id for each in reader.predictions(new)] == ["a", "b"]
    assert set(reader.shown("a")) == {"sentiment"}


def test_a_prediction_that_nobody_replaced_keeps_its_run(registry, reader, succeed):
    old = succeed(predicted=["a", "b"])
    succeed(predicted=["b"])
    assert registry.prune(0) == []
    assert [each.instance_id for each in reader.predictions(old)] == ["a"]


def test_predictions_for_items_that_a_later_run_trains_on_go(registry, succeed):
    old = succeed(predicted=["a"])
    succeed(trained=["a"])
    assert old in registry.prune(0)


@pytest.mark.parametrize("newer", [{"value": 0.4, "baseline": 0.5}, None])
def test_a_model_that_is_not_known_to_beat_the_baseline_replaces_no_good_one(
    registry, reader, succeed, newer
):
    old = succeed(predicted=["a"], headline={"value": 0.8, "baseline": 0.5})
    succeed(predicted=["a"], headline=newer)
    registry.prune(0)
    assert [each.instance_id for each in reader.predictions(old)] == ["a"]


def test_a_pruned_run_takes_its_rows_along_and_no_others(registry, reader, path, run_in, succeed):
    kept = succeed(predicted=["z"], trained=["y"])
    run = run_in(State.BUILDING)
    registry.record_items(run.run_id, 1, "train", [f"item-{number}" for number in range(2500)])
    registry.record_events(run.run_id, 1, 0, [{"event": "log", "message": "m"}] * 2500)
    registry.transition(run.run_id, 1, State.ERROR)
    assert registry.prune(0) == [run.run_id]
    assert items_of(path, kept, "train") == ["y"]
    assert count(path, "potato_ray_events") == 0
    assert [row.run_id for row in reader.runs()] == [kept]
    assert count(path, "training_runs") == count(path, "training_run_items") == 1


def test_a_prune_that_was_cut_off_is_completed_by_the_next(registry, path, run_in):
    run = run_in(State.RUNNING)
    registry.record_events(run.run_id, 1, 0, [{"event": "log", "message": "m"}])
    registry.close()
    connection = sqlite3.connect(path)
    connection.execute("DELETE FROM potato_ray_runs")
    connection.commit()
    connection.close()
    registry.open()
    assert registry.prune(5) == []
    assert count(path, "potato_ray_events") == 0


def test_what_is_left_of_pruned_runs_is_found_between_those_that_stay(registry, path, run_in):
    made = [run_in(State.SUCCESS).run_id for _ in range(5)]
    registry.record_note(made[1], 1, {"event": "log", "message": "m"})
    registry.record_note(made[2], 1, {"event": "log", "message": "m"})
    registry._connection.execute("DELETE FROM potato_ray_runs WHERE seq IN (2, 3, 5)")
    assert orphans(registry._connection) == [2, 3, 5]
    registry.prune(5)
    assert orphans(registry._connection) == []
    assert count(path, "potato_ray_events") == 0


def test_what_a_failed_run_has_stored_is_dropped_step_by_step(registry, reader, run_in):
    run = run_in(State.FINISHING)
    registry.store_predictions(run.run_id, 1, labels("a"))
    registry.transition(run.run_id, 1, State.ERROR)
    assert registry.withdraw_step(run.run_id) == 0
    assert registry.withdraw_step(run.run_id) is None
    assert list(reader.predictions(run.run_id)) == []


def test_pruning_goes_a_chunk_at_a_time(registry, reader, succeed):
    old = succeed([f"item-{number:05}" for number in range(1500)])
    succeed([f"item-{number:05}" for number in range(1500)])
    pruning = Pruning(registry, 0)
    assert pruning.step() is False
    assert len(list(reader.predictions(old))) == 500
    while not pruning.step():
        pass
    assert list(reader.predictions(old)) == []
    assert old not in [run.run_id for run in reader.runs()]


def test_pruning_that_met_trouble_goes_on_when_it_is_over(registry, reader, run_in, monkeypatch):
    gone = [run_in(State.SUCCESS).run_id for _ in range(2)]
    pruning = Pruning(registry, 0)
    pruning.step()
    with monkeypatch.context() as locked:
        locked.setattr("potato_ray.registry.retention.forget", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            pruning.step()
    while not pruning.step():
        pass
    assert {run.run_id for run in reader.runs()}.isdisjoint(gone)
