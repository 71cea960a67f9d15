"""One file with Potato: its tables stay whole, ours survive what it does, and each sees the other's runs."""

from __future__ import annotations

import json
import sqlite3

import pytest
from publishing import publish, replay
from recorded_items import items_of

from potato_ray.registry import Registry, RegistryReader, Reservation, State, StoredPrediction
from potato_ray.writeback import WritebackSettings

SHOW = WritebackSettings(("sentiment",))
COLUMNS = {
    "training_runs": "project run_id trainer backend schema_names kinds status trigger created_at started_at"
    " finished_at n_train n_val n_test split_seed params metrics artifact_dir model_version bundle_digest"
    " error error_code pid host",
    "training_run_items": "project run_id instance_id split",
    "training_predictions": "project instance_id schema_name run_id payload confidence created_at",
}
KEYS = {
    "training_runs": "project run_id",
    "training_run_items": "project run_id instance_id",
    "training_predictions": "project instance_id schema_name",
}


@pytest.fixture
def sql(path):
    """Run one statement on a connection of its own, as another program would."""

    def run(statement, *values):
        connection = sqlite3.connect(path)
        try:
            rows = connection.execute(statement, values).fetchall()
            connection.commit()
            return rows
        finally:
            connection.close()

    return run


@pytest.fixture
def potato_run(registry, sql):
    """A run that Potato made, with one train item and one prediction."""
    sql(
        "INSERT INTO training_runs"
        " (project, run_id, trainer, schema_names, kinds, status, created_at, n_train)"
        " VALUES ('demo', 'theirs', 'sklearn-text', '[\"sentiment\"]', '[\"nominal\"]', 'success', 2e9, 94)"
    )
    sql("INSERT INTO training_run_items VALUES ('demo', 'theirs', 'trained-by-potato', 'train')")
    return "theirs"


@pytest.mark.parametrize("table", COLUMNS)
def test_the_tables_are_potatos_to_the_column_and_the_key(registry, sql, table):
    info = sql(f"PRAGMA table_info({table})")
    assert [row[1] for row in info] == COLUMNS[table].split()
    assert [row[1] for row in sorted(info, key=lambda row: row[5]) if row[5]] == KEYS[table].split()


def test_tables_that_are_there_already_stay_as_they_are(path, clock, sql):
    sql("CREATE TABLE codes (id INTEGER PRIMARY KEY, name TEXT)")
    sql("INSERT INTO codes VALUES (1, 'praise')")
    sql(
        "CREATE TABLE training_predictions (project TEXT, instance_id TEXT, schema_name TEXT, run_id TEXT,"
        " payload TEXT, confidence REAL, created_at REAL, extra TEXT,"
        " PRIMARY KEY (project, instance_id, schema_name))"
    )
    before = sql("SELECT name, sql FROM sqlite_master ORDER BY name")
    with Registry(path, "demo", clock):
        pass
    after = sql("SELECT name, sql FROM sqlite_master ORDER BY name")
    assert set(before) <= set(after)
    assert sql("SELECT * FROM codes") == [(1, "praise")]


def test_a_run_is_mirrored_from_its_begin_in_potatos_words(registry, sql, queue_run, path):
    run = queue_run()
    status = lambda: sql("SELECT status FROM training_runs WHERE run_id = ?", run.run_id)  # noqa: E731
    assert status() == []
    registry.begin(run.run_id, None, 1)
    seen = [status()]
    for state in (State.RUNNING, State.EVALUATING, State.FINISHING, State.SUCCESS):
        registry.transition(run.run_id, 1, state, artifact_dir="out/artifacts", n_train=94)
        seen.append(status())
    assert [row[0][0] for row in seen] == ["building", "running", "evaluating", "evaluating", "success"]
    row = sql("SELECT project, schema_names, kinds, n_train, n_val, artifact_dir FROM training_runs")[0]
    assert row == ("demo", '["sentiment"]', '["nominal"]', 94, 0, str(path.parent / "out/artifacts"))


def test_an_interrupted_run_is_an_error_to_potato(registry, sql, run_in):
    run_in(State.INTERRUPTED)
    assert sql("SELECT status, error_code FROM training_runs") == [("error", "interrupted")]


def test_a_build_that_goes_back_to_the_queue_leaves_potatos_table(registry, sql, run_in):
    registry.transition(run_in(State.BUILDING).run_id, 1, State.QUEUED)
    assert sql("SELECT * FROM training_runs") == []


def test_items_are_mirrored_without_the_unlabeled_ones(registry, sql, run_in):
    run = run_in(State.BUILDING)
    for split in ("train", "val", "test", "unlabeled"):
        registry.record_items(run.run_id, 1, split, [f"in-{split}"])
    rows = sql("SELECT instance_id, split FROM training_run_items ORDER BY rowid")
    assert rows == [("in-train", "train"), ("in-val", "val"), ("in-test", "test")]


def test_only_what_is_published_is_mirrored(registry, sql, run_in):
    run = run_in(State.FINISHING)
    made = [StoredPrediction("a", scheme, {"label": "x"}, 0.5) for scheme in ("sentiment", "tone")]
    registry.store_predictions(run.run_id, 1, made)
    publish(registry, run.run_id, 1, SHOW)
    rows = sql("SELECT project, instance_id, schema_name, run_id, confidence FROM training_predictions")
    assert rows == [("demo", "a", "sentiment", run.run_id, 0.5)]
    assert json.loads(sql("SELECT payload FROM training_predictions")[0][0]) == {
        "label": "x",
        "confidence": 0.5,
    }


def test_runs_that_potato_made_are_listed_among_ours(registry, reader, run_in, potato_run):
    run = run_in(State.SUCCESS)
    assert [(each.run_id, each.made_by) for each in reader.runs()] == [
        ("theirs", "potato"),
        (run.run_id, "potato_ray"),
    ]
    theirs = reader.run("theirs")
    assert (theirs.state, theirs.schemas, theirs.kinds, theirs.n_train) == (
        State.SUCCESS,
        ("sentiment",),
        ("nominal",),
        94,
    )
    assert [each.run_id for each in reader.runs(status="error")] == []
    assert len(reader.runs(trainer="sklearn-text", status="success")) == 2


def test_potatos_runs_are_listed_where_we_have_never_written(path, sql):
    sql("CREATE TABLE training_runs (project, run_id, trainer, status, created_at, params, kinds)")
    sql("INSERT INTO training_runs VALUES ('p', 'r', 't', 'aborted', 5.0, 'no json', '{}')")
    run = RegistryReader(path).runs()[0]
    assert (run.run_id, run.state, run.params, run.kinds) == ("r", State.ERROR, {}, ())
    assert RegistryReader(path).run("r") == run


def test_renaming_the_task_hides_no_run(registry, path, clock, run_in, potato_run):
    run_in(State.SUCCESS)
    with Registry(path, "a new name", clock):
        assert len(RegistryReader(path).runs()) == 2


def test_items_that_potato_trained_on_count_as_trained_on(registry, run_in, potato_run):
    run = run_in(State.FINISHING)
    registry.store_predictions(
        run.run_id, 1, [StoredPrediction("trained-by-potato", "sentiment", {"label": "x"}, 1.0)]
    )
    assert publish(registry, run.run_id, 1, SHOW).n_skipped_train_split == 1


def test_nothing_of_ours_is_lost_when_potato_empties_its_tables(registry, reader, run_in, sql):
    run = run_in(State.FINISHING)
    registry.record_items(run.run_id, 1, "train", ["t"])
    registry.store_predictions(run.run_id, 1, [StoredPrediction("a", "sentiment", {"label": "x"}, 0.5)])
    publish(registry, run.run_id, 1, SHOW)
    for table in COLUMNS:
        sql(f"DELETE FROM {table}")  # noqa: S608
    assert reader.shown("a") == {"sentiment": {"label": "x", "confidence": 0.5}}
    assert items_of(registry.path, run.run_id, "train") == ["t"]
    assert registry.transition(run.run_id, 1, State.SUCCESS).state is State.SUCCESS
    assert reader.runs()[0].made_by == "potato_ray"


def test_a_table_that_refuses_our_row_costs_the_mirror_and_nothing_else(registry, reader, queue_run, sql):
    sql("DROP TABLE training_runs")
    sql("CREATE TABLE training_runs (project TEXT, run_id TEXT, reviewer TEXT NOT NULL)")
    run = queue_run()
    assert registry.begin(run.run_id, Reservation("local", ("GPU-a",)), 1) is not None
    assert reader.run(run.run_id).state is State.BUILDING
    assert reader.reservations()[0].gpu_uuids == ("GPU-a",)
    assert sql("SELECT * FROM training_runs") == []


def test_a_newer_prediction_of_potatos_own_is_not_overwritten_by_a_replay(
    registry, run_in, sql, potato_run, clock
):
    run = run_in(State.FINISHING)
    registry.store_predictions(run.run_id, 1, [StoredPrediction("a", "sentiment", {"label": "ours"}, 0.5)])
    publish(registry, run.run_id, 1, SHOW)
    registry.transition(run.run_id, 1, State.SUCCESS)
    sql("UPDATE training_predictions SET run_id = 'theirs', payload = '{}', created_at = ?", clock.now + 9)
    replay(registry, SHOW)
    assert sql("SELECT run_id FROM training_predictions") == [("theirs",)]
    sql("UPDATE training_predictions SET created_at = ?", clock.now - 9)
    replay(registry, SHOW)
    assert sql("SELECT run_id FROM training_predictions") == [(run.run_id,)]


VERDICTS = (
    "CREATE TABLE model_review_verdicts (project, instance_id, schema_name DEFAULT '', reviewer, verdict)"
)


def test_items_that_a_reviewer_corrected_are_forced_into_train(registry, reader, sql):
    sql(VERDICTS)
    for item, verdict in (("a", "correct"), ("b", "accept"), ("c", "reject")):
        sql("INSERT INTO model_review_verdicts VALUES ('demo', ?, 'sentiment', 'tanja', ?)", item, verdict)
    assert reader.forced_train() == registry.forced_train() == {"a": "corrected"}


@pytest.mark.parametrize("columns", ["reviewer, verdict", "instance_id, schema_name, note"])
def test_a_verdict_table_of_another_shape_says_nothing(registry, reader, sql, columns):
    sql(f"CREATE TABLE model_review_verdicts ({columns})")
    assert reader.forced_train() == {}
    assert reader.shown("a") == {}


def test_a_rejected_pair_is_gone_at_once(registry, reader, run_in, sql):
    run = run_in(State.FINISHING)
    registry.store_predictions(run.run_id, 1, [StoredPrediction("a", "sentiment", {"label": "x"}, 0.5)])
    publish(registry, run.run_id, 1, SHOW)
    sql(VERDICTS)
    sql("INSERT INTO model_review_verdicts VALUES ('demo', 'a', 'other', 'tanja', 'reject')")
    assert set(reader.shown("a")) == {"sentiment"}
    sql("INSERT INTO model_review_verdicts VALUES ('demo', 'a', 'sentiment', 'tanja', 'reject')")
    assert reader.shown("a") == {}
