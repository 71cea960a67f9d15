"""Scores of answers that are sets of labels: multiselect, hierarchical_multiselect.

A missing prediction counts as one wrong label, so that it is wrong also where the human set is empty.
macro_f1 is over the labels among the split's human labels; micro_f1 over all that occur.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from sklearn import metrics as sk
from sklearn.preprocessing import MultiLabelBinarizer

from potato_ray.scoring.classification import OUTSIDE
from potato_ray.scoring.defined import defined

MAIN = "micro_f1"
LOWER_IS_BETTER = False
METRICS = ("micro_f1", "macro_f1", "subset_accuracy", "jaccard")


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """jaccard is the mean over items; two empty sets agree. macro_f1 is absent without human labels."""
    human, said, classes = indicators(truth, answers)
    used = [number for number in range(len(classes)) if human[:, number].any()]
    return defined(
        micro_f1=float(main_of(per_item(truth, answers, scheme).sum(0))),
        macro_f1=(sk.f1_score(human, said, labels=used, average="macro", zero_division=0) if used else None),
        subset_accuracy=sk.accuracy_score(human, said),
        jaccard=sk.jaccard_score(human, said, average="samples", zero_division=1),
    )


def indicators(
    truth: Sequence[Any], answers: Sequence[Any | None]
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """(human, said, classes): 0/1 arrays of shape (n_items, n_classes); at least two classes."""
    human = [_labels(labels) for labels in truth]
    said = [_labels(labels) if isinstance(labels, list | tuple) else {OUTSIDE} for labels in answers]
    classes = sorted({OUTSIDE}.union(*human, *said))
    coder = MultiLabelBinarizer(classes=classes if len(classes) > 1 else [*classes, "\0none"])
    coder.fit([])
    return coder.transform(human), coder.transform(said), classes


def _labels(labels: Sequence[Any]) -> set[str]:
    return {str(label) for label in labels}


def per_item(truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]) -> np.ndarray:
    """True positives, false positives, false negatives of each item; shape (n_items, 3)."""
    human, said, _ = indicators(truth, answers)
    return np.column_stack(
        [(human & said).sum(1), (said & ~human & 1).sum(1), (human & ~said & 1).sum(1)]
    ).astype(float)


def main_of(sums: np.ndarray) -> np.ndarray:
    """micro_f1 of sums of `per_item`, shape (..., 3) -> (...); 1 where there is nothing to find or to err."""
    hits, false, missed = sums[..., 0], sums[..., 1], sums[..., 2]
    total = 2 * hits + false + missed
    return np.asarray(np.where(total == 0, 1.0, 2 * hits / np.maximum(total, 1)))


def per_label(truth: Sequence[Any], answers: Sequence[Any | None]) -> dict[str, dict[str, float]]:
    """Precision, recall, F1 and the number of items of each human label."""
    human, said, classes = indicators(truth, answers)
    precision, recall, f1, n = sk.precision_recall_fscore_support(human, said, zero_division=0)
    return {
        label: {
            "precision": float(precision[number]),
            "recall": float(recall[number]),
            "f1": float(f1[number]),
            "n": int(n[number]),
        }
        for number, label in enumerate(classes)
        if n[number]
    }


def baseline(train: Sequence[Any], scheme: Mapping[str, Any]) -> list[str]:
    """The labels that more than half of the train items have; without one, the most frequent label."""
    counts = Counter(label for labels in train for label in _labels(labels))
    frequent = sorted(label for label, count in counts.items() if count * 2 > len(train))
    if frequent or not counts:
        return frequent
    return [min(counts, key=lambda label: (-counts[label], label))]
