"""Scores of single-label answers: radio, select, triage, binary pairwise.

The labels are those among the split's human labels. A missing prediction, and a label that no human
gave in the split, is a value outside of them. scikit-learn computes the metrics.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn import metrics as sk

from potato_ray.scoring.defined import defined
from potato_ray.scoring.intervals import resample_cells

MAIN = "macro_f1"
LOWER_IS_BETTER = False
METRICS = ("macro_f1", "accuracy", "cohen_kappa")

OUTSIDE = "\0outside"


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """macro_f1, accuracy and cohen_kappa (absent where it is undefined); `answers` are labels or None."""
    said = outside_as_one(truth, answers)
    return defined(
        macro_f1=sk.f1_score(truth, said, labels=labels_of(truth), average="macro", zero_division=0),
        accuracy=sk.accuracy_score(truth, said),
        cohen_kappa=cohen_kappa(truth, said),
    )


def cohen_kappa(truth: Sequence[str], said: Sequence[str]) -> float | None:
    """Cohen's kappa, or None where chance alone would agree always."""
    if len({*truth, *said}) < 2:
        return None
    return float(sk.cohen_kappa_score(truth, said))


def labels_of(truth: Sequence[Any]) -> list[str]:
    """The labels that humans gave in the split, sorted."""
    return sorted({str(label) for label in truth})


def outside_as_one(truth: Sequence[Any], answers: Sequence[Any | None]) -> list[str]:
    """The answers, with OUTSIDE for a missing prediction and for a label that no human gave."""
    known = set(labels_of(truth))
    return [answer if isinstance(answer, str) and answer in known else OUTSIDE for answer in answers]


def confusion(truth: Sequence[Any], answers: Sequence[Any | None]) -> tuple[list[str], np.ndarray]:
    """(labels, matrix): rows are human labels, columns predicted ones and then OUTSIDE; shape (L, L + 1)."""
    labels = labels_of(truth)
    square = sk.confusion_matrix(truth, outside_as_one(truth, answers), labels=[*labels, OUTSIDE])
    return labels, square[: len(labels)]


def per_label(truth: Sequence[Any], answers: Sequence[Any | None]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and the number of items of each label."""
    labels = labels_of(truth)
    precision, recall, f1, n = sk.precision_recall_fscore_support(
        truth, outside_as_one(truth, answers), labels=labels, zero_division=0
    )
    columns = zip(labels, precision, recall, f1, n, strict=True)
    return {
        label: {"precision": float(p), "recall": float(r), "f1": float(f), "n": int(count)}
        for label, p, r, f, count in columns
    }


def resampled(
    truth: Sequence[Any],
    answers: Sequence[Any | None],
    scheme: Mapping[str, Any],
    rng: np.random.Generator,
    n_resamples: int,
) -> np.ndarray:
    """macro_f1 of resamples of the items, by drawing the matrix's cells that are not 0; (n_resamples,)."""
    labels, matrix = confusion(truth, answers)
    human, said = np.nonzero(matrix)
    is_human = np.eye(len(labels))[human]
    is_said = np.eye(len(labels) + 1)[said][:, :-1]
    shares = matrix[human, said] / len(truth)

    def macro_f1(drawn: np.ndarray) -> np.ndarray:
        return macro_f1_of(drawn @ (is_human * is_said), drawn @ is_human, drawn @ is_said)

    return resample_cells(shares, len(truth), macro_f1, rng, n_resamples)


def macro_f1_of(hits: np.ndarray, human: np.ndarray, said: np.ndarray) -> np.ndarray:
    """macro_f1 over the labels that have items, from counts by label, each of shape (..., L)."""
    f1 = 2 * hits / np.maximum(human + said, 1)
    present = human > 0
    return np.asarray((f1 * present).sum(-1) / np.maximum(present.sum(-1), 1))


def baseline(train: Sequence[Any], scheme: Mapping[str, Any]) -> str:
    """The most frequent label of the train split (of equals, the first by name)."""
    counts = Counter(str(label) for label in train)
    return min(counts, key=lambda label: (-counts[label], label))
