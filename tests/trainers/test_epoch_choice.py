"""What an epoch is worth: the main metric of each kind against scikit-learn, and ties."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from potato_ray.trainers import epoch_choice
from potato_ray.trainers.text_objective import Objective

DRAW = np.random.default_rng(0)
NOMINAL = Objective("nominal", ("a", "b", "c"))
ORDINAL = Objective("ordinal", ("1", "2", "3", "4"))
SETS = Objective("multilabel", ("x", "y"))


def test_labels_are_judged_by_macro_f1_over_those_that_occur() -> None:
    outputs, truth = DRAW.normal(size=(50, 3)), DRAW.integers(0, 2, 50)
    name, value = epoch_choice.metric(NOMINAL, outputs, truth)
    said = outputs.argmax(axis=1)
    wanted = f1_score(truth, said, labels=[0, 1], average="macro")
    assert (name, value) == ("macro_f1", pytest.approx(wanted))


def test_grades_are_judged_by_the_quadratic_kappa() -> None:
    outputs, truth = DRAW.normal(size=(50, 3)), DRAW.integers(0, 4, 50)
    name, value = epoch_choice.metric(ORDINAL, outputs, truth)
    said = ORDINAL.probabilities(outputs).argmax(axis=1)
    assert (name, value) == (
        "quadratic_kappa",
        pytest.approx(cohen_kappa_score(truth, said, weights="quadratic")),
    )


def test_grades_that_are_all_the_same_are_worth_nothing() -> None:
    assert epoch_choice.metric(ORDINAL, np.full((5, 3), -9.0), np.zeros(5, dtype=int)) == (
        "quadratic_kappa",
        0.0,
    )


def test_sets_are_judged_by_micro_f1() -> None:
    outputs, truth = DRAW.normal(size=(50, 2)), DRAW.random((50, 2)) < 0.4
    name, value = epoch_choice.metric(SETS, outputs, truth)
    assert (name, value) == ("micro_f1", pytest.approx(f1_score(truth, outputs > 0, average="micro")))


def test_numbers_are_judged_by_their_mean_error_the_less_the_better() -> None:
    objective = Objective("continuous", (), mean=50.0, scale=10.0, bounds=(0.0, 100.0))
    near, far = np.array([[0.1], [-0.1]]), np.array([[2.0], [-2.0]])
    truth = np.array([50.0, 50.0])
    assert epoch_choice.metric(objective, near, truth) == ("mae", pytest.approx(1.0))
    assert epoch_choice.worth(objective, near, truth) > epoch_choice.worth(objective, far, truth)


def test_of_two_epochs_with_one_score_the_surer_one_is_better() -> None:
    truth = np.array([0, 1, 2])
    sure, unsure = np.eye(3) * 4, np.eye(3)
    assert epoch_choice.metric(NOMINAL, sure, truth) == epoch_choice.metric(NOMINAL, unsure, truth)
    assert epoch_choice.worth(NOMINAL, sure, truth) > epoch_choice.worth(NOMINAL, unsure, truth)
