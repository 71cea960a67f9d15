"""The scores of a run: headline, baseline from train, interval, coverage, what is excluded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from potato_ray.errors import RunFailed
from potato_ray.scoring.calibration import reliability
from potato_ray.scoring.intervals import believable_interval, percentile_interval, resample_sums
from potato_ray.scoring.regression import main_of
from potato_ray.scoring.report import RunScores, few_items_warning, score_run, write_pictures
from potato_ray.scoring.split_scores import Prediction, score_split

Labels = dict[str, str]


def make_bundle(folder: Path, splits: dict[str, Labels], **stats: Any) -> Path:
    """A bundle of a radio scheme `tone` with these labelled items."""
    bundle = folder / "bundle"
    bundle.mkdir()
    for split in ("train", "val", "test", "unlabeled"):
        rows = [
            {"instance_id": i, "text": i, "targets": {"tone": t}} for i, t in splits.get(split, {}).items()
        ]
        (bundle / f"{split}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    scheme = {"name": "tone", "annotation_type": "radio", "kind": "nominal", "labels": ["bad", "good"]}
    body = {"v": 1, "schemas": [scheme], "labels": {"tone": ["bad", "good"]}, "stats": stats}
    (bundle / "manifest.json").write_text(json.dumps(body))
    return bundle


def say(folder: Path, answers: dict[str, tuple[str, float]]) -> Path:
    """predictions.jsonl with (label, confidence) of each item."""
    path = folder / "predictions.jsonl"
    rows = [
        {"instance_id": item, "schema_name": "tone", "payload": {"label": label}, "confidence": sure}
        for item, (label, sure) in answers.items()
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


TRAIN = {f"t{n}": "good" if n % 3 else "bad" for n in range(9)}
VAL = {"v1": "good", "v2": "bad", "v3": "good", "v4": "bad"}
TEST = {"w1": "good", "w2": "bad"}
SAID = {
    "v1": ("good", 0.9),
    "v2": ("good", 0.8),
    "v3": ("good", 0.7),
    "w1": ("good", 0.9),
    "w2": ("bad", 0.6),
}


@pytest.fixture
def scores(tmp_path: Path) -> RunScores:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL, "test": TEST})
    return score_run(bundle, say(tmp_path, SAID), selects_on_val=False)


def test_the_headline_is_the_main_metric_on_val(scores: RunScores) -> None:
    assert scores.headline is not None
    assert (scores.headline.metric, scores.headline.split) == ("macro_f1", "val")
    assert scores.headline.value == scores.metrics["val_macro_f1"]


def test_test_comes_first_when_the_trainer_chose_on_val(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL, "test": TEST})
    scores = score_run(bundle, say(tmp_path, SAID), selects_on_val=True)
    assert scores.headline is not None
    assert (scores.headline.split, scores.headline.value) == ("test", 1.0)
    assert scores.as_json()["selects_on_val"] is True


def test_a_labelled_item_without_a_prediction_counts_as_wrong(scores: RunScores) -> None:
    assert scores.metrics["val_accuracy"] == pytest.approx(2 / 4)
    assert scores.metrics["val_coverage"] == pytest.approx(3 / 4)


def test_the_baseline_is_fitted_on_train_and_not_on_the_split(tmp_path: Path) -> None:
    only_bad = {f"v{n}": "bad" for n in range(4)}
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": only_bad})
    scores = score_run(bundle, say(tmp_path, dict.fromkeys(only_bad, ("bad", 0.9))), selects_on_val=False)
    assert scores.headline is not None
    assert (scores.headline.value, scores.headline.baseline) == (1.0, 0.0)


def test_without_held_out_items_a_run_is_not_scored(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN})
    scores = score_run(bundle, say(tmp_path, {}), selects_on_val=False)
    assert (scores.headline, scores.note, scores.metrics) == (None, "not scored", {})


def test_the_same_seed_gives_the_same_interval(tmp_path: Path, scores: RunScores) -> None:
    again = score_run(tmp_path / "bundle", tmp_path / "predictions.jsonl", selects_on_val=False)
    assert again.as_json() == scores.as_json()


def mark_seeded(bundle: Path, *items: str) -> None:
    """Mark val items as labelled with a pre-label in sight."""
    path = bundle / "val.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    marked = [{**row, "seeded": True} if row["instance_id"] in items else row for row in rows]
    path.write_text("".join(json.dumps(row) + "\n" for row in marked))


def test_items_labelled_without_a_prelabel_get_a_second_score(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL})
    mark_seeded(bundle, "v2", "v4")
    scores = score_run(bundle, say(tmp_path, SAID), selects_on_val=False)
    assert scores.headline is not None
    assert scores.blind is not None
    assert (scores.headline.n_items, scores.blind.n_items) == (4, 2)
    assert scores.blind.value == 1.0
    assert scores.as_json()["only_blind"] is False


def test_the_blind_score_can_be_the_headline(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL})
    mark_seeded(bundle, "v2", "v4")
    scores = score_run(bundle, say(tmp_path, SAID), selects_on_val=False, blind="headline")
    assert scores.headline is not None
    assert (scores.headline.n_items, scores.headline.value, scores.blind) == (2, 1.0, None)
    assert scores.as_json()["only_blind"] is True


def test_without_prelabels_there_is_one_score(scores: RunScores) -> None:
    assert scores.blind is None


def test_the_previous_score_stands_beside_its_like(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL})
    previous = {"val_macro_f1": 0.25, "test_macro_f1": 0.5}
    scores = score_run(bundle, say(tmp_path, SAID), selects_on_val=False, previous=previous)
    assert scores.headline is not None
    assert scores.headline.previous == 0.25


def test_a_score_after_items_moved_into_train_is_marked_not_comparable(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL}, forced_train={"moved": 3})
    scores = score_run(bundle, say(tmp_path, SAID), selects_on_val=False)
    assert scores.headline is not None
    assert scores.headline.comparable is False


def test_the_most_confident_mistakes_come_first(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL})
    said = {"v1": ("bad", 0.6), "v2": ("good", 0.99), "v3": ("good", 0.7), "v4": ("good", 0.8)}
    mistakes = score_run(bundle, say(tmp_path, said), selects_on_val=False).splits["val"].mistakes
    assert [each.instance_id for each in mistakes] == ["v2", "v4", "v1"]


def test_scores_are_plain_json(scores: RunScores) -> None:
    assert json.loads(json.dumps(scores.as_json(), allow_nan=False))["splits"]["val"]["coverage"] == 0.75


@pytest.mark.parametrize("confidence", [float("nan"), 10**400])
def test_a_confidence_that_is_no_number_is_left_out(tmp_path: Path, confidence: float) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL})
    path = say(tmp_path, {**SAID, "v4": ("bad", confidence)})
    scores = score_run(bundle, path, selects_on_val=False)
    assert scores.metrics["val_coverage"] == 1.0
    assert sum(each["n"] for each in scores.splits["val"].bins) == 3


def test_a_number_that_is_too_large_is_the_worst_mistake() -> None:
    said = {"a": Prediction(1.5, None), "b": Prediction(10**400, None)}
    scores = score_split({"a": 1.0, "b": 2.0}, said, {"kind": "continuous"}, [1.0], np.random.default_rng(0))
    assert [each.instance_id for each in scores.mistakes] == ["b", "a"]
    assert scores.metrics["mae"] == 0.75


def test_a_prediction_without_an_answer_is_none(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL})
    path = say(tmp_path, SAID)
    row = {"instance_id": "v4", "schema_name": "tone", "payload": {}, "confidence": 1.0}
    path.write_text(path.read_text() + json.dumps(row) + "\n")
    assert score_run(bundle, path, selects_on_val=False).metrics["val_coverage"] == 0.75


def test_a_preference_trainers_run_is_headed_by_its_accuracy(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL})
    scores = score_run(bundle, say(tmp_path, SAID), selects_on_val=False, scored_as="preference")
    assert scores.headline is not None
    assert (scores.headline.metric, scores.headline.value) == ("accuracy", 0.5)


def test_a_torn_prediction_is_named_by_its_line(tmp_path: Path) -> None:
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": VAL})
    path = say(tmp_path, SAID)
    path.write_text(path.read_text() + '{"instance_id": "v4"')
    with pytest.raises(RunFailed, match=r"Line 6 of predictions\.jsonl"):
        score_run(bundle, path, selects_on_val=False)


def test_pictures_are_drawn_for_each_split(tmp_path: Path, scores: RunScores) -> None:
    names = {path.name for path in write_pictures(scores, tmp_path)}
    assert {"val_confusion_matrix.svg", "test_confusion_matrix.svg", "val_reliability.svg"} <= names


def test_a_bootstrap_interval_covers_the_true_mean_about_as_often_as_it_says() -> None:
    rng = np.random.default_rng(0)
    covered = 0
    for _ in range(200):
        sums = np.column_stack([rng.exponential(2.0, 80), np.ones(80)])
        interval = percentile_interval(resample_sums(sums, main_of, rng, 200))
        assert interval is not None
        covered += interval[0] <= 2.0 <= interval[1]
    assert 0.87 <= covered / 200 <= 0.99


def test_no_defined_resample_means_no_interval() -> None:
    assert percentile_interval(np.array([np.nan, np.nan])) is None
    assert believable_interval(np.array([np.nan]), 20) == (
        None,
        "the score is undefined in every resample of 20 items",
    )


@pytest.mark.parametrize(
    ("values", "n_items", "interval", "note"),
    [
        ([0.5, 1.0], 10, (0.5125, 0.9875), ""),
        ([0.5, 1.0], 9, None, "fewer than 10 items"),
        ([1.0, 1.0], 40, None, "every resample of 40 items gives the same value"),
        ([0.1 + 0.2, 0.3], 40, None, "every resample of 40 items gives the same value"),
        ([1.0, 1.0], 1, None, "every resample of 1 item gives the same value"),
        ([1e-7, 2e-7], 40, (1.025e-7, 1.975e-7), ""),
    ],
)
def test_an_interval_that_would_read_as_certainty_is_none(
    values: list[float], n_items: int, interval: tuple[float, float] | None, note: str
) -> None:
    found, why = believable_interval(np.array(values), n_items)
    assert (found, why) == (pytest.approx(interval) if interval else None, note)


def held_out(tmp_path: Path, count: int, wrong: int) -> RunScores:
    """The scores of a run on `count` val items, the first `wrong` of them wrong."""
    val = {f"v{n}": "good" if n % 2 else "bad" for n in range(count)}
    bundle = make_bundle(tmp_path, {"train": TRAIN, "val": val})
    said = {item: ("bad" if n < wrong else label, 0.9) for n, (item, label) in enumerate(val.items(), -1)}
    return score_run(bundle, say(tmp_path, said), selects_on_val=False)


@pytest.mark.parametrize(
    ("count", "wrong", "note"),
    [
        (3, 0, "every resample of 3 items gives the same value"),
        (9, 2, "fewer than 10 items"),
        (10, 2, ""),
        (40, 0, "every resample of 40 items gives the same value"),
    ],
)
def test_a_score_without_an_interval_says_why(tmp_path: Path, count: int, wrong: int, note: str) -> None:
    scores = held_out(tmp_path, count, wrong)
    assert scores.headline is not None
    assert scores.headline.interval_note == scores.splits["val"].interval_note == note
    assert (scores.headline.low is None) == (scores.headline.high is None) == bool(note)


@pytest.mark.parametrize(
    ("count", "wrong", "said"),
    [
        (
            3,
            0,
            "The held-out score rests on 3 items and has no interval (every resample of 3 items gives the "
            "same value), so nothing tells whether it is better than the baseline. Label more items.",
        ),
        (
            29,
            5,
            "The held-out score rests on 29 items, so its interval is wide. Label more items for a surer "
            "one.",
        ),
        (30, 5, None),
        (40, 0, None),
    ],
)
def test_a_score_on_few_items_is_warned_of(tmp_path: Path, count: int, wrong: int, said: str | None) -> None:
    assert few_items_warning(held_out(tmp_path, count, wrong).headline) == said


def test_a_run_without_a_score_is_not_warned_of() -> None:
    assert few_items_warning(None) is None


def test_perfectly_calibrated_confidences_have_no_calibration_error() -> None:
    bins, ece = reliability([0.75] * 4, [True, True, True, False])
    assert ece == pytest.approx(0.0)
    assert bins == [{"low": 0.7, "high": 0.8, "n": 4, "mean_confidence": 0.75, "accuracy": 0.75}]


def test_calibration_error_is_the_mean_gap() -> None:
    _, ece = reliability([0.95, 0.95, 0.55, 0.55], [True, False, True, True])
    assert ece == pytest.approx((2 * 0.45 + 2 * 0.45) / 4)
