"""What a score is said to be better than: only what the intervals allow."""

from __future__ import annotations

from typing import Any

import pytest
from run_history import succeed

from potato_ray.server.score_view import Comparison, compare, missing_words

HEAD = {
    "metric": "macro_f1",
    "split": "val",
    "value": 0.8,
    "n_items": 40,
    "lower_is_better": False,
    "low": 0.7,
    "high": 0.9,
    "baseline": 0.4,
    "previous": None,
    "comparable": True,
}


def comparison(serve: Any, *, scores: dict[str, Any] | None = None, **changes: Any) -> Comparison:
    """Of a run with the headline HEAD, changed; `scores` are what else its scores hold."""
    served = serve()
    run = succeed(served)
    scores = {"headline": {**HEAD, **changes}, "splits": {}, **(scores or {})}
    run = served.controller.write(served.controller.registry.update, run.run_id, 1, scores=scores)
    found = compare(served.reader, run)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "Better than the baseline"),
        ({"baseline": 0.75}, "The 95 % interval includes the baseline's score"),
        ({"baseline": 0.7}, "The 95 % interval includes the baseline's score"),
        ({"baseline": 0.95}, "Worse than the baseline"),
        ({"metric": "mae", "lower_is_better": True, "baseline": 0.95}, "Better than the baseline"),
        ({"metric": "mae", "lower_is_better": True, "baseline": 0.5}, "Worse than the baseline"),
        ({"low": None, "high": None}, "The score has no 95 % interval, so nothing can be said"),
        (
            {"value": 1.0, "low": None, "high": None, "interval_note": "fewer than 10 items"},
            "The score has no 95 % interval (fewer than 10 items), so nothing can be said",
        ),
    ],
)
def test_the_baseline_is_met_by_the_interval(serve, changes: dict[str, Any], word: str) -> None:
    assert comparison(serve, **changes).words[0].startswith(word)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "No earlier run has this metric"),
        ({"previous": 0.85}, "The previous run's score is within this 95 % interval"),
        ({"previous": 0.5}, "The previous run's score is outside this 95 % interval, but"),
        ({"previous": 0.5, "comparable": False}, "Not directly comparable with earlier runs"),
    ],
)
def test_of_a_previous_run_whose_interval_is_unknown_little_is_said(
    serve, changes: dict[str, Any], word: str
) -> None:
    assert comparison(serve, **changes).words[1].startswith(word)


def test_all_scores_lie_on_one_axis(serve) -> None:
    found = comparison(serve, previous=0.6)
    assert [(each.kind, round(each.at)) for each in found.standings] == [
        ("this", 80),
        ("previous", 60),
        ("baseline", 40),
    ]
    assert (found.standings[0].start, found.standings[0].end) == (pytest.approx(70), pytest.approx(90))
    assert [text for _, text in found.ticks] == ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]


def test_a_score_below_zero_has_an_axis_that_holds_it(serve) -> None:
    found = comparison(serve, metric="quadratic_kappa", value=-0.2, low=-0.5, high=0.1)
    assert all(0 <= each.at <= 100 for each in found.standings)
    assert found.standings[0].start is not None
    assert found.standings[0].start >= 0


def test_errors_begin_at_zero(serve) -> None:
    found = comparison(serve, metric="mae", value=12.0, low=9.0, high=14.0, baseline=20.0)
    assert found.ticks[0] == (0.0, "0")


BLIND = {**HEAD, "value": 0.6, "low": 0.5, "high": 0.7, "n_items": 12}


def test_a_blind_score_on_the_same_split_stands_beside_the_first(serve) -> None:
    found = comparison(serve, scores={"blind": BLIND})
    assert [(each.kind, each.name) for each in found.standings[:2]] == [
        ("this", "This run"),
        ("blind", "This run, items of val labelled blind"),
    ]
    assert found.words[-1].startswith("The second score is on the 12 items of val that were labelled with no")


def test_a_blind_score_on_another_split_is_told_and_compared_with_nothing(serve) -> None:
    found = comparison(serve, scores={"blind": {**BLIND, "split": "test", "low": None, "high": None}})
    assert "blind" not in [each.kind for each in found.standings]
    assert found.words[-1] == (
        "No item of val was labelled without a pre-label in sight, so this score may flatter the model. On "
        "the 12 items of test that were, macro_f1 is 0.600; those are other items, so the two cannot be "
        "compared."
    )


def test_a_score_of_blind_items_alone_says_so(serve) -> None:
    found = comparison(serve, scores={"only_blind": True})
    assert found.words[-1].startswith(
        "Only the 40 items of val that were labelled with no pre-label in sight"
    )


@pytest.mark.parametrize(("split", "told"), [("val", True), ("test", False)])
def test_a_score_on_the_split_that_the_trainer_chose_by_is_told_to_flatter(
    serve, split: str, told: bool
) -> None:
    found = comparison(serve, scores={"selects_on_val": True}, split=split)
    assert any("chose its best checkpoint on val" in each for each in found.words) == told


@pytest.mark.parametrize(
    ("kind", "meaning"),
    [
        ("nominal", "each counts as wrong."),
        ("ordinal", "each counts as the label farthest from the human's."),
        ("continuous", "each counts as the end of the range that is farther from the human's answer."),
    ],
)
def test_what_an_item_without_a_prediction_counts_as_is_said_by_kind(kind: str, meaning: str) -> None:
    splits = {"val": {"n_items": 40, "n_predicted": 37}, "test": {"n_items": 30, "n_predicted": 30}}
    [sentence] = missing_words({"kind": kind, "splits": splits})
    assert sentence == f"3 of the 40 labelled items of val got no prediction; {meaning}"
