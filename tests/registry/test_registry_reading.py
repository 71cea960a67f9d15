"""Readers: without a file, beside a writer, filtered, and the score of the run before."""

from __future__ import annotations

import sqlite3

import pytest
from recorded_items import items_of

from potato_ray.errors import NotFound, RunFailed
from potato_ray.registry import NewRun, Registry, RegistryReader, State, StoredPrediction


def assert_empty(reader):
    assert reader.runs() == reader.current() == reader.unfinished() == []
    assert reader.events("nope") == list(reader.predictions("nope")) == []
    assert reader.pins() == reader.reservations() == []
    assert reader.forced_train() == {}
    assert reader.shown("a") == {}
    assert reader.last_seq("nope") == 0
    assert reader.previous_success("nope") is None
    with pytest.raises(NotFound):
        reader.run("nope")


def test_without_a_file_there_is_nothing_to_read_and_none_is_made(tmp_path):
    assert_empty(RegistryReader(tmp_path / "project.sqlite"))
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_our_tables_has_nothing_to_read(path):
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE codes (id INTEGER)")
    connection.close()
    assert_empty(RegistryReader(path))


def test_an_empty_registry_has_nothing_to_read(reader):
    assert_empty(reader)


def test_a_reader_needs_no_writer(path, clock):
    with Registry(path, "demo", clock) as registry:
        new = NewRun("t", ("s",), ("nominal",))
        run = registry.create_run(new, queue_max=1, allow_queue=True, max_concurrent=1)
    assert RegistryReader(path).run(run.run_id).position == 1


def test_runs_are_newest_first_and_limited(reader, run_in, clock):
    made = []
    for _ in range(4):
        clock.now += 1
        made.append(run_in(State.SUCCESS).run_id)
    assert [run.run_id for run in reader.runs(limit=3)] == made[:0:-1]


@pytest.mark.parametrize("state", list(State))
def test_runs_are_filtered_by_the_status_that_people_see(reader, run_in, state):
    for each in State:
        run_in(each)
    status = "queued" if state is State.OFFERED else state.value
    found = reader.runs(status=status)
    assert {run.status for run in found} == {status}
    assert len(found) == (2 if status == "queued" else 1)


def test_a_run_that_is_being_cancelled_is_found_under_that_name_alone(registry, reader, run_in):
    run = run_in(State.RUNNING)
    registry.request_cancel(run.run_id)
    assert [each.run_id for each in reader.runs(status="cancelling")] == [run.run_id]
    assert reader.runs(status="running") == []
    registry.transition(run.run_id, 1, State.CANCELLED)
    assert reader.runs(status="cancelling") == []


def test_runs_are_filtered_by_trainer(reader, run_in):
    run_in(State.SUCCESS)
    other = run_in(State.SUCCESS, NewRun("setfit", ("s",), ("nominal",)))
    assert [run.run_id for run in reader.runs(trainer="setfit")] == [other.run_id]


def test_current_and_unfinished_are_told_apart(reader, run_in):
    waiting, offered, working = run_in(State.QUEUED), run_in(State.OFFERED), run_in(State.EVALUATING)
    run_in(State.ERROR)
    assert [run.run_id for run in reader.current()] == [working.run_id]
    assert [run.run_id for run in reader.unfinished()] == [waiting.run_id, offered.run_id, working.run_id]


def test_items_are_recorded_by_split_and_counted(registry, reader, run_in):
    run = run_in(State.BUILDING)
    for split, ids in {"train": ["b", "a"], "val": ["c"], "test": [], "unlabeled": ["d"]}.items():
        registry.record_items(run.run_id, 1, split, ids)
        assert items_of(registry.path, run.run_id, split) == sorted(ids)
    now = reader.run(run.run_id)
    assert (now.n_train, now.n_val, now.n_test, now.n_unlabeled) == (2, 1, 0, 1)


def test_recording_a_split_again_counts_each_item_once(registry, run_in):
    run = run_in(State.BUILDING)
    ids = [f"item-{number}" for number in range(1500)]
    registry.record_items(run.run_id, 1, "train", ids)
    assert registry.record_items(run.run_id, 1, "train", ids) == 1500


def test_a_split_of_another_name_is_refused(registry, run_in):
    with pytest.raises(ValueError, match="dev"):
        registry.record_items(run_in(State.BUILDING).run_id, 1, "dev", ["a"])


def test_predictions_come_back_in_order_of_item(registry, reader, run_in):
    run = run_in(State.FINISHING)
    made = [StoredPrediction(f"i{n:05}", "s", {"label": "é"}, n / 3000) for n in range(2500)]
    assert registry.store_predictions(run.run_id, 1, reversed(made)) == 2500
    assert registry.store_predictions(run.run_id, 1, made) == 2500
    assert list(reader.predictions(run.run_id)) == made


def test_lines_of_predictions_jsonl_are_taken_as_they_are(registry, reader, run_in):
    run = run_in(State.FINISHING)
    line = {"instance_id": 7, "schema_name": "s", "payload": {"value": 2.5}, "confidence": float("nan")}
    registry.store_predictions(run.run_id, 1, [line])
    assert list(reader.predictions(run.run_id)) == [StoredPrediction("7", "s", {"value": 2.5}, None)]


def test_predictions_are_stored_as_their_file_has_them(registry, reader, run_in):
    run = run_in(State.FINISHING)
    line = b'{"instance_id": "%s", "schema_name": "s", "payload": {"label": "x"}, "confidence": 0.5}\n'
    assert registry.store_lines(run.run_id, 1, line % b"a" + line % b"b", first=1) == 2
    assert list(reader.predictions(run.run_id)) == [
        StoredPrediction(i, "s", {"label": "x"}, 0.5) for i in "ab"
    ]


@pytest.mark.parametrize("torn", [b'{"a": 1\n"b": 2}\n', b"{}, {}\n{\n", b"{}\n\n"])
def test_a_torn_line_of_predictions_is_named(registry, run_in, torn):
    with pytest.raises(RunFailed, match=r"[Ll]ine") as failed:
        registry.store_lines(run_in(State.FINISHING).run_id, 1, torn, first=1001)
    assert failed.value.code == "no_result"


@pytest.mark.parametrize("foreign", [b"3\n", b"[]\n", b"{}\n", b'{"instance_id": "a", "schema_name": "s"}\n'])
def test_a_line_that_is_no_prediction_is_refused(registry, run_in, foreign):
    with pytest.raises(RunFailed, match="no prediction"):
        registry.store_lines(run_in(State.FINISHING).run_id, 1, foreign, first=1)


def test_the_previous_success_is_the_newest_earlier_success_on_the_same_scheme(registry, reader, run_in):
    def succeed(value, schemas=("sentiment",), state=State.SUCCESS):
        new = NewRun("t", schemas, ("nominal",))
        return run_in(state, new, scores={"metrics": {"val_macro_f1": value, "note": "text"}}).run_id

    succeed(0.5)
    succeed(0.6)
    succeed(0.7, ("other", "sentiment"))
    succeed(0.8, state=State.ERROR)
    last = succeed(0.9)
    previous = reader.previous_success(last)
    assert previous is not None
    assert previous[1] == {"val_macro_f1": 0.6}
    assert reader.previous_success(reader.runs()[-1].run_id) is None


def test_pins_are_kept_once_and_join_the_corrected_items(registry, reader):
    assert registry.add_pins(["b", "a", "a"], "tanja") == 2
    assert registry.add_pins(["a", "c"]) == 1
    assert reader.pins() == registry.pins() == ["a", "b", "c"]
    assert registry.remove_pins(["b", "nope"]) == 1
    assert reader.forced_train() == registry.forced_train() == dict.fromkeys(["a", "c"], "pinned")
