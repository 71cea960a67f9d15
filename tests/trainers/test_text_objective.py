"""What a transformer's outputs mean for each kind of scheme."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from potato_ray.trainers import kinds
from potato_ray.trainers.text_objective import BALANCED, NONE, Objective

NOMINAL = Objective(kinds.NOMINAL, ("bad", "good", "so-so"))
ORDINAL = Objective(kinds.ORDINAL, ("1", "2", "3"))
SETS = Objective(kinds.MULTILABEL, ("price", "service"))
NUMBERS = Objective(kinds.CONTINUOUS, (), mean=50.0, scale=10.0, bounds=(0.0, 100.0))


@pytest.mark.parametrize(("objective", "n"), [(NOMINAL, 3), (ORDINAL, 2), (SETS, 2), (NUMBERS, 1)])
def test_each_kind_has_its_outputs(objective: Objective, n: int) -> None:
    assert objective.n_outputs == n


def test_the_answer_is_the_most_probable_label_and_its_probability_the_confidence() -> None:
    [(payload, confidence)] = NOMINAL.answers(np.array([[0.0, 2.0, 1.0]]))
    assert payload["label"] == "good"
    assert confidence == payload["probabilities"]["good"]
    assert sum(payload["probabilities"].values()) == pytest.approx(1.0)


def test_steps_of_a_scale_that_contradict_each_other_give_probabilities_all_the_same() -> None:
    rows = ORDINAL.probabilities(np.array([[-3.0, 3.0], [4.0, -4.0], [9.0, 9.0]]))
    assert (rows >= 0).all()
    assert rows.sum(axis=1) == pytest.approx(1.0)
    assert [payload["label"] for payload, _ in ORDINAL.answers(np.array([[4.0, -4.0], [9.0, 9.0]]))] == [
        "2",
        "3",
    ]


def test_a_set_is_what_holds_and_is_as_sure_as_its_least_certain_label() -> None:
    [(payload, confidence)] = SETS.answers(np.array([[4.0, -1.0]]))
    assert payload["labels"] == ["price"]
    assert confidence == pytest.approx(1 - payload["probabilities"]["service"])


def test_numbers_come_back_in_the_scheme_s_own_unit_and_within_its_bounds() -> None:
    answers = [payload["value"] for payload, _ in NUMBERS.answers(np.array([[0.0], [1.0], [9.0]]))]
    assert answers == [50.0, 60.0, 100.0]
    assert NUMBERS.targets(np.array([50.0, 60.0])).tolist() == [0.0, 1.0]


@pytest.mark.parametrize("objective", [NOMINAL, ORDINAL, SETS])
def test_a_temperature_changes_no_answer(objective: Objective) -> None:
    outputs = np.random.default_rng(0).normal(scale=2.0, size=(200, objective.n_outputs))
    cold, plain, warm = (list(objective.answers(outputs, value)) for value in (0.5, 1.0, 5.0))
    for (one, _), (two, _), (three, _) in zip(cold, plain, warm, strict=True):
        assert without_probabilities(one) == without_probabilities(two) == without_probabilities(three)
    assert sum(float(sure or 0) for _, sure in cold) > sum(float(unsure or 0) for _, unsure in warm)


def test_middle_grades_stay_when_the_steps_are_less_sure() -> None:
    outputs = np.array([[1.5, -1.5]])
    for value in (1.0, 3.0, 20.0):
        [(payload, _)] = ORDINAL.answers(outputs, value)
        assert payload["label"] == "2"
        assert sum(payload["probabilities"].values()) == pytest.approx(1.0)


def test_two_grades_are_scaled_as_two_labels_are() -> None:
    outputs = np.array([[-40.0], [-20.0], [0.3], [20.0]])
    two = Objective(kinds.ORDINAL, ("low", "high"))
    for value in (0.5, 5.0, 20.0):
        assert two.probabilities(outputs, value)[:, 1] == pytest.approx(
            1 / (1 + np.exp(-outputs[:, 0] / value))
        )


def test_a_grade_without_any_probability_stays_without_when_scaled() -> None:
    assert ORDINAL.probabilities(np.array([[-2.0, 1.0]]), 5.0)[0, 1] == pytest.approx(0.0, abs=1e-9)


def without_probabilities(payload: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in payload.items() if name != "probabilities"}


def test_rare_labels_weigh_more_when_they_are_to_be_balanced() -> None:
    coded = np.array([0, 0, 0, 1, 1, 2])
    assert NOMINAL.weights(coded, NONE) is None
    assert NOMINAL.weights(coded, BALANCED).tolist() == pytest.approx([2 / 3, 1.0, 2.0])
    of_no, of_yes = SETS.weights(
        np.array([[True, False], [True, False], [False, False], [False, True]]), BALANCED
    )
    assert (of_no.tolist(), of_yes.tolist()) == (pytest.approx([1.0, 2 / 3]), pytest.approx([1.0, 2.0]))


def test_what_is_saved_is_read_again() -> None:
    for objective in (NOMINAL, ORDINAL, SETS, NUMBERS):
        assert Objective.from_json(objective.as_json()) == objective
