"""Who is right when annotators disagree: the model of Dawid and Skene.

A. P. Dawid and A. M. Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM
Algorithm", Applied Statistics 28(1), 1979. Every annotator has a confusion matrix; expectation
maximisation finds the matrices, the share of each label and, per item, the probability of each label.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.integer[Any]]

SMALLEST_COUNT = 1e-10
"""Stands for a count of zero, so that one answer never rules a label out for good."""


@dataclass(frozen=True)
class DawidSkene:
    """A fitted model.

    `posteriors` (n_items, n_labels) and `priors` (n_labels,) sum to 1. `log_confusion` (n_habits,
    n_labels) is log P(answer | true label) for every annotator and answer that he gave at least once;
    which these are say `annotators` and `answers` (n_habits,). `bound` is the evidence lower bound per
    answer after the last of `n_iterations`; `converged` is False when the limit of iterations ended the fit.
    """

    posteriors: Floats
    priors: Floats
    log_confusion: Floats
    annotators: Ints
    answers: Ints
    n_iterations: int
    bound: float
    converged: bool

    def confusion(self, annotator: int) -> Floats:
        """P(answer | true label) as [true label, answer], (n_labels, n_labels); 0 without any answers."""
        n_labels = len(self.priors)
        own = self.annotators == annotator
        matrix = np.zeros((n_labels, n_labels))
        matrix[:, self.answers[own]] = np.exp(self.log_confusion[own]).T
        return matrix


def votes(item_index: Ints, codes: Ints, n_items: int, n_labels: int) -> Floats:
    """How often each item got each label, (n_items, n_labels)."""
    cells = item_index.astype(np.int64) * n_labels + codes
    return np.bincount(cells, minlength=n_items * n_labels).reshape(n_items, n_labels).astype(np.float64)


def fit(
    item_index: Ints,
    annotator_index: Ints,
    codes: Ints,
    *,
    n_items: int,
    n_labels: int,
    tolerance: float = 1e-5,
    max_iterations: int = 100,
    poll: Callable[[], object] = lambda: None,
) -> DawidSkene:
    """Fit the model to answers: annotator `annotator_index[k]` gave `codes[k]` to `item_index[k]`.

    The three arrays are (n_answers,), an annotator answers an item at most once. It starts from each
    item's shares of votes and stops when the bound rises by less than `tolerance`. `poll` is called in
    every iteration and may raise to stop the work. Raises ValueError where there are no answers.
    """
    n_answers = len(codes)
    if n_answers == 0:
        raise ValueError("there are no answers to fit")
    given = votes(item_index, codes, n_items, n_labels)
    answers_per_item = given.sum(axis=1)
    posteriors = given / np.maximum(answers_per_item, 1.0)[:, None]
    habits = annotator_index.astype(np.int64) * n_labels + codes
    used = np.flatnonzero(np.bincount(habits))
    by_item = _by_item(item_index, np.searchsorted(used, habits), (n_items, len(used)))
    by_habit, annotators = by_item.T.tocsr(), used // n_labels
    counts, log_confusion, priors = _maximise(by_habit, annotators, posteriors)
    bound, iteration, converged = -np.inf, 0, False
    while not converged and iteration < max_iterations:
        poll()
        iteration += 1
        posteriors = _expect(by_item, log_confusion, priors)
        counts, log_confusion, priors = _maximise(by_habit, annotators, posteriors)
        previous = bound
        bound = _bound(counts, log_confusion, priors, posteriors, answers_per_item) / n_answers
        converged = bound - previous < tolerance
    return DawidSkene(
        posteriors, priors, log_confusion, annotators, used % n_labels, iteration, float(bound), converged
    )


def _by_item(item_index: Ints, habit_index: Ints, shape: tuple[int, int]) -> Any:
    """A sparse 0/1 matrix: a row per item, a column per habit.

    A habit is an annotator and a label that he gave at least once; other pairs need no place.
    """
    from scipy.sparse import csr_matrix

    return csr_matrix((np.ones(len(item_index)), (item_index, habit_index)), shape=shape)


def _maximise(by_habit: Any, annotators: Ints, posteriors: Floats) -> tuple[Floats, Floats, Floats]:
    """Expected counts and log P(answer | true label), both (n_habits, n_labels), and the priors.

    `annotators` are those of the habits, ascending.
    """
    counts = np.maximum(by_habit @ posteriors, SMALLEST_COUNT)
    starts = np.flatnonzero(np.diff(annotators, prepend=-1))
    sizes = np.diff(starts, append=len(annotators))
    totals = np.repeat(np.add.reduceat(counts, starts, axis=0), sizes, axis=0)
    return counts, np.log(counts / totals), posteriors.mean(axis=0)


def _expect(by_item: Any, log_confusion: Floats, priors: Floats) -> Floats:
    with np.errstate(divide="ignore"):  # a label that nobody uses has the prior 0, and keeps it
        scores = by_item @ log_confusion + np.log(priors)
    scores -= scores.max(axis=1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=1, keepdims=True)
    return np.asarray(scores, dtype=np.float64)


def _bound(
    counts: Floats, log_confusion: Floats, priors: Floats, posteriors: Floats, answers_per_item: Floats
) -> float:
    """The bound that decides when to stop; it counts the prior once per answer, as crowd-kit does.

    Any increasing bound would do; this one ends the fit at the same iteration as that library, which is
    what makes posteriors comparable to more than two or three digits.
    """
    fit_of_answers = float((counts * log_confusion).sum())
    mass = answers_per_item @ posteriors
    used = priors > 0
    fit_of_labels = float(mass[used] @ np.log(priors[used]))
    certain = np.where(posteriors > 0, posteriors, 1.0)
    return fit_of_answers + fit_of_labels - float((certain * np.log(certain)).sum())
