"""Who is right when annotators disagree: the model of Dawid and Skene.

A. P. Dawid and A. M. Skene, "Maximum Likelihood Estimation of Observer Error-Rates Using the EM
Algorithm", Applied Statistics 28(1), 1979. Every annotator has a confusion matrix; expectation
maximisation finds the matrices, the share of each label and, per item, the probability of each label.
"""

from __future__ import annotations

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

    `posteriors` (n_items, n_labels) and `priors` (n_labels,) sum to 1; `confusion` (n_annotators,
    n_labels, n_labels) is P(answer | true label) as [annotator, true label, answer]. `bound` is the
    evidence lower bound per answer after the last of `n_iterations`; `converged` is False when the limit
    of iterations ended the fit.
    """

    posteriors: Floats
    confusion: Floats
    priors: Floats
    n_iterations: int
    bound: float
    converged: bool


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
    n_annotators: int,
    n_labels: int,
    tolerance: float = 1e-5,
    max_iterations: int = 100,
) -> DawidSkene:
    """Fit the model to answers: annotator `annotator_index[k]` gave `codes[k]` to `item_index[k]`.

    The three arrays are (n_answers,), an annotator answers an item at most once. It starts from each
    item's shares of votes and stops when the bound rises by less than `tolerance`. Where no item has two
    answers nothing can be learnt about anybody: the posteriors are then the answers themselves.
    """
    n_answers = len(codes)
    if n_answers == 0:
        raise ValueError("there are no answers to fit")
    given = votes(item_index, codes, n_items, n_labels)
    by_item = _answers_by_item(item_index, annotator_index, codes, (n_items, n_annotators, n_labels))
    by_answer = by_item.T.tocsr()
    answers_per_item = given.sum(axis=1)
    posteriors = given / np.maximum(answers_per_item, 1.0)[:, None]
    counts, log_confusion, priors = _maximise(by_answer, posteriors, n_labels)
    bound, iteration, converged = -np.inf, 0, bool(answers_per_item.max() <= 1)
    while not converged and iteration < max_iterations:
        iteration += 1
        posteriors = _expect(by_item, log_confusion, priors)
        counts, log_confusion, priors = _maximise(by_answer, posteriors, n_labels)
        previous = bound
        bound = _bound(counts, log_confusion, priors, posteriors, answers_per_item) / n_answers
        converged = bound - previous < tolerance
    confusion = np.exp(log_confusion).reshape(n_annotators, n_labels, n_labels).transpose(0, 2, 1)
    return DawidSkene(posteriors, confusion, priors, iteration, float(bound), converged)


def _answers_by_item(
    item_index: Ints, annotator_index: Ints, codes: Ints, shape: tuple[int, int, int]
) -> Any:
    """A sparse 0/1 matrix: a row per item, a column per (annotator, label that he gave)."""
    from scipy.sparse import csr_matrix

    n_items, n_annotators, n_labels = shape
    columns = annotator_index.astype(np.int64) * n_labels + codes
    ones = np.ones(len(codes))
    return csr_matrix((ones, (item_index, columns)), shape=(n_items, n_annotators * n_labels))


def _maximise(by_answer: Any, posteriors: Floats, n_labels: int) -> tuple[Floats, Floats, Floats]:
    """Expected counts and log P(answer | true label), both (annotator x answer, true label), and priors."""
    counts = np.maximum(by_answer @ posteriors, SMALLEST_COUNT)
    by_annotator = counts.reshape(-1, n_labels, n_labels)
    log_confusion = np.log(by_annotator / by_annotator.sum(axis=1, keepdims=True))
    return counts, log_confusion.reshape(counts.shape), posteriors.mean(axis=0)


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
