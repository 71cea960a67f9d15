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
    said = np.array([value if _is_number(value) else math.nan for value in answers], dtype=float)
    return human, np.where(np.isnan(said), worst, said)


def range_of(human: np.ndarray, scheme: Mapping[str, Any]) -> tuple[float, float]:
    """The lowest and the highest value that an answer can have."""
    options: Mapping[str, Any] = scheme.get("options") or {}
    given = options.get("scale")
    scale: Mapping[str, Any] = given if isinstance(given, Mapping) else {}
    low = _first(options.get("min_value"), options.get("min"), scale.get("min"), default=human.min())
    high = _first(options.get("max_value"), options.get("max"), scale.get("max"), default=human.max())
    return float(min(low, human.min())), float(max(high, human.max()))


def _first(*values: Any, default: float) -> float:
    return next((float(value) for value in values if _is_number(value)), float(default))


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


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
