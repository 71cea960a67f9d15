"""What a score is said to be better than: only what the intervals allow."""

from __future__ import annotations

from typing import Any

import pytest
from run_history import succeed

from potato_ray.server.score_view import Comparison, compare

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


def comparison(serve: Any, **changes: Any) -> Comparison:
    served = serve()
    run = succeed(served)
    scores = {"headline": {**HEAD, **changes}, "splits": {}}
    run = served.controller.write(served.controller.registry.update, run.run_id, 1, scores=scores)
    found = compare(served.reader, run)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "Better than the baseline"),
        ({"baseline": 0.75}, "Not distinguishable from the baseline"),
        ({"baseline": 0.7}, "Not distinguishable from the baseline"),
        ({"baseline": 0.95}, "Worse than the baseline"),
        ({"metric": "mae", "lower_is_better": True, "baseline": 0.95}, "Better than the baseline"),
        ({"metric": "mae", "lower_is_better": True, "baseline": 0.5}, "Worse than the baseline"),
        ({"low": None, "high": None}, "The score has no interval"),
    ],
)
def test_the_baseline_is_met_by_the_interval(serve, changes: dict[str, Any], word: str) -> None:
    assert comparison(serve, **changes).words[0].startswith(word)


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({}, "No earlier run has this metric"),
        ({"previous": 0.85}, "Not distinguishable from the previous run: its score is within"),
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
