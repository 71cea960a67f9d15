"""Scores of labels, scales, sets and numbers, held against scikit-learn and scipy used by hand."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from potato_ray.scoring import classification, multilabel, ordinal, preference, regression
from potato_ray.scoring.measures import ANSWER_KEYS, MEASURES
from potato_ray.trainers import kinds

SCALE: dict[str, Any] = {"labels": ["1", "2", "3", "4", "5"]}
RANGE: dict[str, Any] = {"options": {"min_value": 0, "max_value": 100}}
LABELS = st.sampled_from(["a", "b", "c"])
ANSWERS = st.one_of(st.none(), LABELS, st.just("unheard of"))


def test_every_kind_of_answer_has_a_measure_and_an_answer_key() -> None:
    assert set(MEASURES) == set(ANSWER_KEYS) == {*kinds.ALL, kinds.PREFERENCE}
    assert all(measure.METRICS[0] == measure.MAIN for measure in MEASURES.values())


@given(st.lists(st.tuples(LABELS, ANSWERS), min_size=1, max_size=40))
def test_macro_f1_is_over_the_human_labels_and_a_missing_prediction_is_outside(
    pairs: list[tuple[str, str | None]],
) -> None:
    truth, answers = zip(*pairs, strict=True)
    said = [answer if answer in set(truth) else "outside" for answer in answers]
    expected = sk.f1_score(truth, said, labels=sorted(set(truth)), average="macro", zero_division=0)
    found = classification.metrics(truth, answers, {})
    assert found["macro_f1"] == pytest.approx(expected, abs=1e-9)
    assert found["accuracy"] == pytest.approx(np.mean([t == a for t, a in pairs]), abs=1e-9)
    assert all(math.isfinite(value) for value in found.values())


@given(st.lists(st.tuples(LABELS, ANSWERS), min_size=1, max_size=40))
def test_macro_f1_of_the_confusion_matrix_is_the_macro_f1_of_the_items(
    pairs: list[tuple[str, str | None]],
) -> None:
    truth, answers = zip(*pairs, strict=True)
    _, matrix = classification.confusion(truth, answers)
    assert matrix.sum() == len(pairs)
    by_items = classification.metrics(truth, answers, {})["macro_f1"]
    counts = np.diagonal(matrix), matrix.sum(1), matrix.sum(0)[:-1]
    assert classification.macro_f1_of(*counts) == pytest.approx(by_items, abs=1e-12)


def test_cohen_kappa_is_absent_where_everybody_always_says_the_same() -> None:
    assert "cohen_kappa" not in classification.metrics(["a", "a"], ["a", "a"], {})


@given(st.lists(st.tuples(st.sampled_from(SCALE["labels"]), st.sampled_from(SCALE["labels"])), min_size=2))
def test_ordinal_scores_agree_with_scikit_learn_and_scipy(pairs: list[tuple[str, str]]) -> None:
    truth, answers = ([int(each) for each in side] for side in zip(*pairs, strict=True))
    found = ordinal.metrics(*zip(*pairs, strict=True), SCALE)
    assert found["mae"] == pytest.approx(np.mean(np.abs(np.subtract(truth, answers))), abs=1e-9)
    if len({*truth, *answers}) > 1:
        expected = sk.cohen_kappa_score(truth, answers, labels=[1, 2, 3, 4, 5], weights="quadratic")
        assert found["quadratic_kappa"] == pytest.approx(expected, abs=1e-9)
    if len(set(truth)) > 1 and len(set(answers)) > 1:
        assert found["spearman"] == pytest.approx(stats.spearmanr(truth, answers).statistic, abs=1e-9)


def test_quadratic_kappa_of_sums_is_that_of_the_items() -> None:
    truth, answers = ["1", "2", "3", "5", "4", "4"], ["1", "3", "3", "4", "1", "4"]
    sums = ordinal.per_item(truth, answers, SCALE).sum(0)
    by_items = ordinal.metrics(truth, answers, SCALE)["quadratic_kappa"]
    assert ordinal.main_of(sums) == pytest.approx(by_items, abs=1e-12)


def test_a_step_of_the_scale_counts_also_where_nobody_gave_it() -> None:
    scheme = {"labels": ["1", "2", "4", "5"], "configured_labels": ["1", "2", "3", "4", "5"]}
    assert ordinal.metrics(["2", "1"], ["4", "1"], scheme)["mae"] == 1.0


def test_many_labels_are_resampled_in_little_memory() -> None:
    truth = [f"label {n % 1000}" for n in range(3000)]
    drawn = classification.resampled(truth, truth[1:] + truth[:1], {}, np.random.default_rng(0), 50)
    assert drawn.shape == (50,)
    assert (drawn == 0).all()


def test_a_preference_is_scored_by_how_often_it_agrees() -> None:
    found = preference.metrics(["A", "B", "A", "tie"], ["A", "A", None, "tie"], {})
    assert found == {"accuracy": 0.5}


@pytest.mark.parametrize(("human", "worst"), [("1", "5"), ("2", "5"), ("3", "1"), ("4", "1"), ("5", "1")])
def test_a_missing_ordinal_prediction_counts_as_the_farthest_label(human: str, worst: str) -> None:
    assert ordinal.metrics([human], [None], SCALE) == ordinal.metrics([human], [worst], SCALE)


@given(
    st.lists(
        st.tuples(st.sets(LABELS).map(sorted), st.one_of(st.none(), st.sets(LABELS).map(sorted))),
        min_size=1,
        max_size=30,
    )
)
def test_multilabel_scores_agree_with_counting(pairs: list[tuple[list[str], list[str] | None]]) -> None:
    truth, answers = zip(*pairs, strict=True)
    said = [{"none was made"} if answer is None else set(answer) for answer in answers]
    hits = sum(len(set(t) & s) for t, s in zip(truth, said, strict=True))
    errors = sum(len(set(t) ^ s) for t, s in zip(truth, said, strict=True))
    found = multilabel.metrics(truth, answers, {})
    expected = 1.0 if hits + errors == 0 else 2 * hits / (2 * hits + errors)
    assert found["micro_f1"] == pytest.approx(expected, abs=1e-9)
    right = [set(t) == s for t, s in zip(truth, said, strict=True)]
    assert found["subset_accuracy"] == pytest.approx(np.mean(right), abs=1e-9)


def test_macro_f1_of_sets_with_one_human_label_is_the_f1_of_that_label() -> None:
    truth, never = [["x"], ["x"], [], []], [[], [], [], []]
    assert multilabel.metrics(truth, never, {})["macro_f1"] == 0.0
    often = multilabel.metrics(truth, [["x"], [], ["x"], []], {})
    assert often["macro_f1"] == pytest.approx(0.5)


def test_a_missing_set_is_wrong_also_where_the_human_set_is_empty() -> None:
    found = multilabel.metrics([[]], [None], {})
    assert (found["micro_f1"], found["subset_accuracy"], found["jaccard"]) == (0.0, 0.0, 0.0)


@given(st.lists(st.tuples(st.floats(0, 100), st.floats(0, 100)), min_size=1, max_size=30))
def test_errors_of_numbers_agree_with_numpy(pairs: list[tuple[float, float]]) -> None:
    truth, answers = zip(*pairs, strict=True)
    found = regression.metrics(truth, answers, RANGE)
    gap = np.abs(np.subtract(truth, answers))
    assert found["mae"] == pytest.approx(gap.mean(), abs=1e-9)
    assert found["rmse"] == pytest.approx(math.sqrt((gap**2).mean()), abs=1e-9)
    assert all(math.isfinite(value) for value in found.values())


@pytest.mark.parametrize(("human", "worst"), [(20.0, 100.0), (80.0, 0.0)])
def test_a_missing_number_counts_as_the_farther_end_of_the_range(human: float, worst: float) -> None:
    truth = [human, 50.0]
    assert regression.metrics(truth, [None, 50.0], RANGE) == regression.metrics(truth, [worst, 50.0], RANGE)


@pytest.mark.parametrize("value", ["5", math.inf, 10**400, True, [5.0]])
def test_what_is_no_number_counts_as_missing(value: Any) -> None:
    truth = [20.0, 50.0]
    assert regression.metrics(truth, [value, 50.0], RANGE) == regression.metrics(truth, [None, 50.0], RANGE)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"min": 0, "max": 10}, (0.0, 10.0)),
        ({"min_value": "-1", "max_value": "10.5"}, (-1.0, 10.5)),
        ({"scale": {"min": -3, "max": 3}}, (-3.0, 5.0)),
        ({"min_value": 10, "max_value": 0}, (4.0, 5.0)),
        ({"max_value": 2}, (4.0, 5.0)),
    ],
)
def test_the_range_is_the_trainers_widened_by_human_values(
    options: dict[str, Any], expected: tuple[float, float]
) -> None:
    assert regression.range_of(np.array([4.0, 5.0]), {"options": options}) == expected


def test_baselines_are_what_a_constant_can_do_best() -> None:
    assert classification.baseline(["b", "a", "b"], {}) == "b"
    assert classification.baseline(["b", "a"], {}) == "a"
    assert ordinal.baseline(["1", "5", "5"], SCALE) == "5"
    assert regression.baseline([1.0, 2.0, 40.0], {}) == 2.0
    assert multilabel.baseline([["a"], ["a", "b"], ["c"]], {}) == ["a"]
