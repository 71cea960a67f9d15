"""Publishing: counts, supersession, the gate, and a publication that is cut off."""

from __future__ import annotations

import sqlite3
from dataclasses import asdict, replace

import pytest
from publishing import publish
from writeback_samples import prediction

from potato_ray.errors import Conflict, NotFound
from potato_ray.registry import RegistryReader, State, StoredPrediction
from potato_ray.server.run_view import grouped
from potato_ray.writeback import Publication, WritebackReport, WritebackSettings

POSITIVE = {"sentiment": {"label": "positive", "confidence": 0.9}}


def test_every_prediction_is_counted_under_its_first_reason(registry, finishing, settings, reject, shown):
    reject("rejected")
    run_id = finishing(
        prediction("good"),
        prediction("trained"),
        prediction("rejected"),
        prediction("low", confidence=0.1),
        prediction("empty", label=""),
        StoredPrediction("good", "tone", {"label": "calm"}, 0.9),
        trained=("trained",),
    )
    report = publish(registry, run_id, 1, settings, {"value": 0.8, "baseline": 0.4})
    counts = {key: value for key, value in asdict(report).items() if key.startswith("n_") and value}
    assert counts == {
        "n_read": 6,
        "n_written": 1,
        "n_skipped_train_split": 1,
        "n_skipped_schema_not_enabled": 1,
        "n_skipped_rejected": 1,
        "n_skipped_low_confidence": 1,
        "n_skipped_empty": 1,
    }
    assert report.summary == (
        "Published 1 of 6 predictions; 1 on items that a model was trained on, 1 of schemes that write-back"
        " is not enabled for, 1 rejected by a reviewer, 1 below min_confidence 0.6, 1 empty"
    )
    assert report.schemas_enabled == ("sentiment",)
    assert report.warnings == ()
    assert shown("good") == POSITIVE


def test_with_no_scheme_enabled_nothing_is_published_and_all_is_stored(registry, finishing, shown):
    run_id = finishing(prediction("a"), prediction("b"))
    report = publish(registry, run_id, 1, WritebackSettings())
    assert report.summary == (
        "No predictions were published: write-back is not enabled for any schema"
        " (model_training.writeback.schemas is empty)"
    )
    assert report.n_skipped_schema_not_enabled == report.n_read == 2
    assert shown("a") == {}
    assert len(list(RegistryReader(registry.path).predictions(run_id))) == 2


def test_a_run_without_predictions_says_so(succeed):
    assert succeed()[1].summary == "No predictions were published: there are none"


def test_when_all_are_skipped_the_summary_says_why(succeed):
    report = succeed(prediction("a", confidence=0.1), prediction("b"), trained=("b",))[1]
    assert report.summary == (
        "No predictions were published: 1 on items that a model was trained on, 1 below min_confidence 0.6"
    )


def test_an_item_of_any_runs_train_split_is_never_published(registry, finishing, succeed, shown):
    other = finishing(trained=("a",))
    registry.transition(other, 1, State.ERROR)
    assert succeed(prediction("a"))[1].n_skipped_train_split == 1
    assert shown("a") == {}


def test_a_verdict_on_another_scheme_or_another_verdict_excludes_nothing(succeed, reject):
    reject("a", schema="tone")
    reject("b", verdict="accept")
    reject("c", verdict="correct")
    report = succeed(prediction("a"), prediction("b"), prediction("c"))[1]
    assert (report.n_written, report.n_skipped_rejected) == (3, 0)


def test_a_newer_prediction_replaces_the_older_one(succeed, shown):
    succeed(prediction("a", "negative"), prediction("b", "negative"))
    report = succeed(prediction("a"))[1]
    assert (report.n_written, report.n_superseded_cleared) == (1, 0)
    assert shown("a") == POSITIVE
    assert shown("b")["sentiment"]["label"] == "negative"


@pytest.mark.parametrize(
    "newer", [prediction("a", confidence=0.1), prediction("a", label=""), prediction("a", confidence=None)]
)
def test_a_newer_prediction_that_is_not_shown_takes_the_older_off(succeed, shown, newer):
    succeed(prediction("a"), prediction("b"))
    report = succeed(newer)[1]
    assert (report.n_written, report.n_superseded_cleared) == (0, 1)
    assert shown("a") == {}
    assert shown("b") == POSITIVE


def test_a_rejected_pair_loses_its_older_pre_label(path, succeed, reject):
    succeed(prediction("a"))
    reject("a")
    assert succeed(prediction("a"))[1].n_superseded_cleared == 1
    connection = sqlite3.connect(path)
    for table in ("potato_ray_prelabels", "training_predictions"):
        assert connection.execute(f"SELECT count(*) FROM {table}").fetchone() == (0,)  # noqa: S608
    connection.close()


def test_pre_labels_on_items_that_a_later_run_trains_on_are_taken_off(succeed, shown):
    succeed(prediction("a"), prediction("b"))
    report = succeed(trained=("a",))[1]
    assert report.n_trained_on_cleared == 1
    assert (shown("a"), shown("b")) == ({}, POSITIVE)


def test_a_run_that_began_earlier_and_ends_later_replaces_nothing(
    registry, finishing, succeed, settings, shown
):
    earlier = finishing(prediction("a", "negative"), prediction("b", "negative"), prediction("c", "negative"))
    succeed(prediction("a"), prediction("b", confidence=0.1))
    report = publish(registry, earlier, 1, settings)
    assert (report.n_written, report.n_skipped_superseded) == (1, 2)
    assert shown("a") == POSITIVE
    assert shown("b") == {}
    assert shown("c")["sentiment"]["label"] == "negative"


def test_an_end_without_success_takes_the_pre_labels_off_again(registry, finishing, settings, shown):
    run_id = finishing(prediction("a"))
    publish(registry, run_id, 1, settings)
    assert shown("a") == POSITIVE
    registry.transition(run_id, 1, State.ERROR)
    while registry.withdraw_step(run_id) is not None:
        pass
    assert shown("a") == {}


BAD = {"value": 0.4, "baseline": 0.5}


def test_the_gate_that_warns_publishes_and_says_so(succeed, shown):
    report = succeed(prediction("a"), headline=BAD)[1]
    assert report.warnings == (
        "The model does not beat the majority baseline on held-out items;"
        " that alone holds no prediction back (model_training.writeback.gate is warn; block would).",
    )
    assert shown("a") == POSITIVE


def test_the_gate_that_warns_says_nothing_untrue_where_nothing_is_published(succeed, shown):
    report = succeed(prediction("a", confidence=0.3), headline=BAD)[1]
    assert report.summary == "No predictions were published: 1 below min_confidence 0.6"
    assert report.warnings[0].endswith(
        "that alone holds no prediction back (model_training.writeback.gate is warn; block would)."
    )
    assert [group for group, _ in grouped(iter(report.warnings))] == ["Write-back"]
    assert shown("a") == {}


def test_the_gate_that_is_off_says_nothing(succeed, settings):
    assert succeed(prediction("a"), headline=BAD, settings=replace(settings, gate="off"))[1].warnings == ()


def test_the_gate_that_blocks_stores_and_leaves_the_older_pre_labels(registry, succeed, settings, shown):
    succeed(prediction("a"))
    newer = (prediction("a", "negative"), prediction("b"))
    run_id, report = succeed(*newer, headline=BAD, settings=replace(settings, gate="block"))
    assert report.n_skipped_gate == 2
    assert report.summary == (
        "No predictions were published: the model does not beat the majority baseline on held-out items"
        " (model_training.writeback.gate is block)"
    )
    assert report.warnings[0].endswith("its predictions are stored and not shown.")
    assert (shown("a"), shown("b")) == (POSITIVE, {})
    assert len(list(RegistryReader(registry.path).predictions(run_id))) == 2


def test_the_gate_that_blocks_lets_a_good_model_pass(succeed, settings):
    block = replace(settings, gate="block")
    good = succeed(prediction("a"), headline={"value": 0.9, "baseline": 0.5}, settings=block)[1]
    assert (good.n_written, good.warnings) == (1, ())


def test_the_gate_that_blocks_holds_a_model_without_a_score_back(succeed, settings, shown):
    succeed(prediction("a"))
    block = replace(settings, gate="block")
    report = succeed(prediction("a", "negative"), prediction("b"), settings=block)[1]
    assert (report.n_written, report.n_skipped_gate) == (0, 2)
    assert report.summary == (
        "No predictions were published: the model has no held-out score with an interval, so nothing says"
        " whether it beats the majority baseline (model_training.writeback.gate is block)"
    )
    assert report.warnings[0].startswith("The model has no held-out score with an interval")
    assert report.warnings[0].endswith("its predictions are stored and not shown.")
    assert (shown("a"), shown("b")) == (POSITIVE, {})


def test_the_gate_that_warns_says_that_a_published_model_has_no_score(succeed):
    report = succeed(prediction("a"))[1]
    assert report.n_written == 1
    assert report.warnings == (
        "The model has no held-out score with an interval, so nothing says whether it beats the majority"
        " baseline;"
        " that alone holds no prediction back (model_training.writeback.gate is warn; block would).",
    )


def many(count):
    return [prediction(f"item-{number:05}", confidence=number % 10 / 10) for number in range(count)]


def test_a_publication_that_was_cut_off_goes_on_and_counts_nothing_twice(
    registry, succeed, finishing, settings, shown
):
    succeed(*[replace(each, confidence=0.9) for each in many(3500)])
    run_id = finishing(*many(3500), trained=("item-00007",))
    for _ in range(3):
        assert not Publication(registry, run_id, 1, settings).step()
    registry.close()
    registry.open()
    report = publish(registry, run_id, 1, settings)
    assert (report.n_read, report.n_written) == (3500, 1400 - 1)
    assert (report.n_skipped_train_split, report.n_skipped_low_confidence) == (1, 2100)
    assert (report.n_trained_on_cleared, report.n_superseded_cleared) == (1, 2100)
    assert shown("item-00006")["sentiment"]["confidence"] == 0.6
    assert shown("item-00005") == {}


def test_publishing_again_answers_the_same_report(registry, finishing, settings):
    run_id = finishing(prediction("a"))
    first = publish(registry, run_id, 1, settings)
    assert publish(registry, run_id, 1, settings) == first
    assert WritebackReport.from_json({**first.as_json(), "of_another_version": 1}) == first


def test_a_report_is_not_to_be_had_before_the_end(registry, finishing, settings):
    with pytest.raises(RuntimeError):
        Publication(registry, finishing(prediction("a")), 1, settings).report()


def test_a_run_that_failed_is_not_published(registry, finishing, settings):
    run_id = finishing(prediction("a"))
    registry.transition(run_id, 1, State.ERROR)
    with pytest.raises(Conflict) as refused:
        publish(registry, run_id, 1, settings)
    assert refused.value.code == "wrong_state"


def test_a_stale_attempt_publishes_nothing(registry, finishing, settings):
    run_id = finishing(prediction("a"))
    with pytest.raises(Conflict) as refused:
        publish(registry, run_id, 2, settings)
    assert refused.value.code == "stale_attempt"
    with pytest.raises(NotFound):
        publish(registry, "nope", 1, settings)


def test_twenty_thousand_predictions_are_published_in_short_transactions(path, registry, finishing, settings):
    run_id = finishing(*many(20_000))
    publication, steps = Publication(registry, run_id, 1, settings), 0
    while not publication.step():
        steps += 1
        # Whoever else writes gets the lock between two steps.
        other = sqlite3.connect(path, timeout=0, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        other.execute("ROLLBACK")
        other.close()
    assert steps >= 20
    assert publication.report().n_written == 8000


def test_predictions_that_potato_shows_to_nobody_are_said_to_be_so(registry, finishing):
    unseen = WritebackSettings(("sentiment",), gate="off", unseen=("sentiment",))
    report = publish(registry, finishing(prediction("a")), 1, unseen)
    assert report.summary == "Published 1 of 1 predictions, which Potato's pages leave empty"
    assert report.warnings == (
        "Annotators see no pre-label of 'sentiment': Potato's pages leave a scheme of its type empty.",
    )


def test_of_what_is_not_published_nothing_is_said_about_what_potato_shows(registry, finishing):
    unseen = WritebackSettings(("sentiment",), 0.99, gate="off", unseen=("sentiment",))
    report = publish(registry, finishing(prediction("a")), 1, unseen)
    assert report.warnings == ()
    assert report.summary == "No predictions were published: 1 below min_confidence 0.99"


def test_a_run_whose_scheme_is_not_enabled_says_which(registry, finishing):
    report = publish(registry, finishing(prediction("a"), prediction("b")), 1, WritebackSettings(("tone",)))
    assert report.n_skipped_schema_not_enabled == 2
    assert report.summary == (
        "No predictions were published: write-back is not enabled for 'sentiment'"
        " (model_training.writeback.schemas)"
    )
