"""Scores of numeric answers: slider, number, vas, pairwise on a scale.

A missing prediction, and one that is no number, counts as the farther end of the scheme's range (of
the split's human values where the scheme has none). Lower `mae` is better.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics as sk

from potato_ray.scoring.defined import defined
from potato_ray.scoring.ordinal import spearman
from potato_ray.trainers.value_range import finite_number, value_range

MAIN = "mae"
LOWER_IS_BETTER = True
METRICS = ("mae", "r2", "rmse", "pearson", "spearman")


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """r2 and the correlations are absent where they are undefined (one item, constant values)."""
    human, said = numbers(truth, answers, scheme)
    varied = len(human) > 1 and np.ptp(human) > 0
    both_varied = varied and np.ptp(said) > 0
    return defined(
        mae=sk.mean_absolute_error(human, said),
        r2=sk.r2_score(human, said) if varied else None,
        rmse=sk.root_mean_squared_error(human, said),
        pearson=float(stats.pearsonr(human, said).statistic) if both_varied else None,
        spearman=spearman(human, said) if both_varied else None,
    )


def numbers(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray]:
    """(human, said), each of shape (n_items,)."""
    human = np.array([float(value) for value in truth])
    low, high = range_of(human, scheme)
    worst = np.where(human - low >= high - human, low, high)
    given = [finite_number(value) for value in answers]
    said = np.array([math.nan if value is None else value for value in given], dtype=float)
    return human, np.where(np.isnan(said), worst, said)


def range_of(human: np.ndarray, scheme: Mapping[str, Any]) -> tuple[float, float]:
    """The lowest and the highest value that an answer can have, human values of the split included."""
    data = float(human.min()), float(human.max())
    least, greatest = value_range(scheme.get("options") or {}, *data)
    return min(least, data[0]), max(greatest, data[1])


def per_item(truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]) -> np.ndarray:
    """Absolute error and 1 for each item; shape (n_items, 2)."""
    human, said = numbers(truth, answers, scheme)
    return np.column_stack([np.abs(human - said), np.ones(len(human))])


def main_of(sums: np.ndarray) -> np.ndarray:
    """mae of sums of `per_item`, shape (..., 2) -> (...)."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))


def baseline(train: Sequence[Any], scheme: Mapping[str, Any]) -> float:
    """The median of the train split, which has the least mean absolute error of all constants."""
    return float(np.median([float(value) for value in train]))
