"""Scores of answers on a scale of labels: likert, confidence.

The scale is the scheme's labels in their order. A missing prediction, and a label that is not on the
scale, counts as the label farthest from the human one. `mae` is in steps of the scale.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics as sk

from potato_ray.scoring.defined import defined

MAIN = "quadratic_kappa"
LOWER_IS_BETTER = False
METRICS = ("quadratic_kappa", "accuracy", "mae", "spearman")


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """quadratic_kappa and spearman are absent where they are undefined (one label only)."""
    human, said, n_labels = positions(truth, answers, scheme)
    return defined(
        quadratic_kappa=_kappa(human, said, n_labels),
        accuracy=sk.accuracy_score(human, said),
        mae=sk.mean_absolute_error(human, said),
        spearman=spearman(human, said),
    )


def _kappa(human: np.ndarray, said: np.ndarray, n_labels: int) -> float | None:
    if len({*human.tolist(), *said.tolist()}) < 2:
        return None
    return float(sk.cohen_kappa_score(human, said, labels=list(range(n_labels)), weights="quadratic"))


def spearman(human: np.ndarray, said: np.ndarray) -> float | None:
    """Spearman's rank correlation, or None where one side is constant."""
    if len(human) < 2 or np.ptp(human) == 0 or np.ptp(said) == 0:
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", stats.ConstantInputWarning)
        return float(stats.spearmanr(human, said).statistic)


def positions(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> tuple[np.ndarray, np.ndarray, int]:
    """(human, said, n_labels): positions on the scale, each of shape (n_items,)."""
    scale = scale_of(truth, scheme)
    place = {label: number for number, label in enumerate(scale)}
    human = np.array([place[str(label)] for label in truth], dtype=np.int64)
    worst = np.where(human * 2 >= len(scale) - 1, 0, len(scale) - 1)
    said = [place.get(answer, -1) if isinstance(answer, str) else -1 for answer in answers]
    return human, np.where(np.array(said) < 0, worst, said), len(scale)


def scale_of(truth: Sequence[Any], scheme: Mapping[str, Any]) -> list[str]:
    """The labels of the scale in order; labels that only the data have come last, sorted.

    `configured_labels` are all of the scale, `labels` only those that somebody gave.
    """
    scale = [str(label) for label in scheme.get("configured_labels") or scheme.get("labels", ())]
    return [*scale, *sorted({str(label) for label in truth} - set(scale))]


def per_item(truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]) -> np.ndarray:
    """1, i, j, i², j² and (i - j)² of each item's two positions; shape (n_items, 6)."""
    human, said, _ = positions(truth, answers, scheme)
    ones = np.ones(len(human))
    return np.column_stack([ones, human, said, human**2, said**2, (human - said) ** 2]).astype(float)


def main_of(sums: np.ndarray) -> np.ndarray:
    """quadratic_kappa of sums of `per_item`, shape (..., 6) -> (...); NaN where it is undefined.

    The disagreement that chance would give is n·Σi² + n·Σj² - 2·Σi·Σj over n, in the same steps squared.
    """
    n, human, said, human_squares, said_squares, observed = np.moveaxis(sums, -1, 0)
    expected = (n * human_squares + n * said_squares - 2 * human * said) / np.maximum(n, 1)
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(expected > 0, 1.0 - observed / expected, np.nan))


def baseline(train: Sequence[Any], scheme: Mapping[str, Any]) -> str:
    """The median label of the train split (the lower of two)."""
    scale = scale_of(train, scheme)
    place = {label: number for number, label in enumerate(scale)}
    ordered = sorted(place[str(label)] for label in train)
    return scale[ordered[(len(ordered) - 1) // 2]]
