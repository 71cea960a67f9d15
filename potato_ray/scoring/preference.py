"""Scores of preferences between two answers (reward models, preference tuning): how often they agree.

The answers are the labels of a binary pairwise scheme, scored as in `classification`; only the main
metric is another one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from potato_ray.scoring import classification
from potato_ray.scoring.defined import defined

MAIN = "accuracy"
LOWER_IS_BETTER = False
METRICS = ("accuracy",)

baseline = classification.baseline


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """accuracy; `answers` are labels or None."""
    return defined(accuracy=float(main_of(per_item(truth, answers, scheme).sum(0))))


def per_item(truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]) -> np.ndarray:
    """Whether the answer is right, and 1, for each item; shape (n_items, 2)."""
    right = [str(target) == answer for target, answer in zip(truth, answers, strict=True)]
    return np.column_stack([np.array(right, dtype=float), np.ones(len(right))])


def main_of(sums: np.ndarray) -> np.ndarray:
    """accuracy of sums of `per_item`, shape (..., 2) -> (...)."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))
