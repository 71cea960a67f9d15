"""The model itself: what it learns about annotators, when it stops, how fast it is."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from potato_ray.project.dawid_skene import DawidSkene, fit


def fitted(answers: Any, n_labels: int, **limits: Any) -> DawidSkene:
    """The model of a full matrix of answers, (n_items, n_annotators)."""
    n_items, n_annotators = np.shape(answers)
    items, annotators = np.divmod(np.arange(n_items * n_annotators), n_annotators)
    return fit(
        items,
        annotators,
        np.ravel(answers),
        n_items=n_items,
        n_labels=n_labels,
        **limits,
    )


def crowd(n_items: int, accuracies: list[float], n_labels: int = 3, seed: int = 0) -> tuple[Any, Any]:
    """The truth, and answers that are right with these probabilities, else any other label."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(n_labels, size=n_items)
    right = rng.random((n_items, len(accuracies))) < accuracies
    wrong = (truth[:, None] + rng.integers(1, n_labels, size=right.shape)) % n_labels
    return truth, np.where(right, truth[:, None], wrong)


def test_it_recovers_how_often_each_annotator_is_right() -> None:
    accuracies = [0.9, 0.8, 0.7, 0.6, 0.5]
    _, answers = crowd(6000, accuracies)
    model = fitted(answers, 3)
    learnt = [np.diagonal(model.confusion(annotator)).mean() for annotator in range(5)]
    np.testing.assert_allclose(learnt, accuracies, atol=0.03)


def test_confusion_is_by_true_label_first_and_answer_second() -> None:
    truth, answers = crowd(2000, [0.9, 0.9, 0.9, 1.0])
    answers[:, 3] = np.where(truth == 0, 2, truth)  # takes every 0 for a 2, and never gives a 0
    confusion = fitted(answers, 3).confusion(3)
    np.testing.assert_allclose(confusion, [[0, 0, 1], [0, 1, 0], [0, 0, 1]], atol=0.01)


def test_probabilities_add_up_to_one() -> None:
    model = fitted(crowd(200, [0.9, 0.6, 0.4], n_labels=4)[1], 4)
    for sums in (model.posteriors.sum(axis=1), model.confusion(2).sum(axis=1), model.priors.sum()):
        np.testing.assert_allclose(sums, 1.0, atol=1e-9)


def test_a_thousand_answers_to_one_item_neither_overflow_nor_underflow() -> None:
    answers = np.zeros((2, 1000), dtype=np.int64)
    answers[1] = 1
    np.testing.assert_allclose(fitted(answers, 2).posteriors, np.eye(2), atol=1e-9)


def test_the_limit_of_iterations_holds_and_is_told() -> None:
    answers = crowd(300, [0.6, 0.5, 0.5])[1]
    model = fitted(answers, 3, max_iterations=2)
    assert (model.n_iterations, model.converged) == (2, False)
    assert fitted(answers, 3, tolerance=1e-3).converged


def test_the_bound_never_falls() -> None:
    answers = crowd(300, [0.8, 0.6, 0.5])[1]
    bounds = [fitted(answers, 3, tolerance=0.0, max_iterations=n).bound for n in range(1, 12)]
    assert np.all(np.diff(bounds) > -1e-9)


def test_the_same_answers_give_the_same_model() -> None:
    answers = crowd(500, [0.9, 0.6, 0.4])[1]
    first, second = fitted(answers, 3), fitted(answers, 3)
    assert first.posteriors.tobytes() == second.posteriors.tobytes()


def test_an_annotator_without_answers_has_no_matrix() -> None:
    nobody = np.array([0, 1])
    model = fit(nobody, np.zeros(2, int), nobody, n_items=2, n_labels=2)
    assert not model.confusion(1).any()


def test_two_thousand_labels_of_many_annotators_take_little_memory() -> None:
    # A matrix for each of the 100 annotators would take 3.2 GB.
    codes = np.arange(500) * 4
    tracemalloc.start()
    model = fit(np.arange(500) // 2, np.arange(500) % 100, codes, n_items=250, n_labels=2000)
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 200e6
    assert model.confusion(7).shape == (2000, 2000)


def test_no_answers_are_an_error() -> None:
    none = np.array([], dtype=np.int32)
    with pytest.raises(ValueError, match="no answers"):
        fit(none, none, none, n_items=0, n_labels=2)
