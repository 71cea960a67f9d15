"""Scores of shapes drawn on pictures: image_annotation, microscopy, geo_annotation.

Human and predicted shapes of a picture are paired one to one by scipy's linear_sum_assignment so that
the paired overlaps add up to most. Only shapes of equal label with an IoU of at least 0.5 can be paired,
points (landmarks) within 2.5 % of the picture's diagonal; the same shape always. f1, precision and recall
count pairs over all items; mean_iou is the mean over the paired shapes that have an area.

A missing prediction misses all shapes of its item; where the item has none it counts as one false shape.
So does each predicted shape that cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment

from potato_ray.scoring import multilabel, shapes
from potato_ray.scoring.defined import defined
from potato_ray.scoring.shapes import Shape

MAIN = "f1"
LOWER_IS_BETTER = False
METRICS = ("f1", "precision", "recall", "mean_iou")

MIN_IOU = 0.5
MAX_DISTANCE = 0.025
# An overlap of exactly a half must not fail by rounding.
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Pairing:
    """One item: how many shapes each side has, the number of pairs, and the IoUs of those with an area."""

    n_human: int
    n_said: int
    n_pairs: int = 0
    ious: Sequence[float] = field(default_factory=tuple)


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """All 0..1. precision is absent without predicted shapes, recall without human ones."""
    if not len(truth):
        return {}
    pairings = _pairings(truth, answers)
    sums = _counts(pairings).sum(0)
    hits, false, missed = sums.tolist()
    ious = [iou for pairing in pairings for iou in pairing.ious]
    return defined(
        f1=float(main_of(sums)),
        precision=hits / (hits + false) if hits + false else None,
        recall=hits / (hits + missed) if hits + missed else None,
        mean_iou=float(np.mean(ious)) if ious else None,
    )


def per_item(truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]) -> np.ndarray:
    """True positives, false positives, false negatives of each item; shape (n_items, 3)."""
    return _counts(_pairings(truth, answers))


def main_of(sums: np.ndarray) -> np.ndarray:
    """f1 of sums of `per_item`, shape (..., 3) -> (...); 1 where there is nothing to find or to err."""
    return multilabel.main_of(sums)


def baseline(train: Sequence[Any], scheme: Mapping[str, Any]) -> list[Any]:
    """No shape at all: no constant place is sensible for pictures of their own."""
    return []


def _counts(pairings: Sequence[Pairing]) -> np.ndarray:
    rows = [(each.n_pairs, each.n_said - each.n_pairs, each.n_human - each.n_pairs) for each in pairings]
    return np.array(rows, dtype=float).reshape(-1, 3)


def _pairings(truth: Sequence[Any], answers: Sequence[Any | None]) -> list[Pairing]:
    return [pair(human, said) for human, said in zip(truth, answers, strict=True)]


def pair(human: Any, said: Any) -> Pairing:
    """Pair the human shapes of an item with the predicted ones, label by label."""
    wanted = _listed(human)
    n_human = len(wanted)
    if not isinstance(said, list | tuple):
        return Pairing(n_human, 0 if n_human else 1)
    given = _listed(said)
    ious: list[float] = []
    n_pairs = 0
    for label in sorted({shape.label for shape in wanted if shape}):
        found = _matched(_of(label, wanted), _of(label, given))
        n_pairs += len(found)
        ious += [iou for iou in found if iou > 0]
    return Pairing(n_human, len(given), n_pairs, ious)


def _listed(parts: Any) -> list[Shape | None]:
    return [shapes.read(part) for part in parts]


def _of(label: str, found: Sequence[Shape | None]) -> list[Shape]:
    return [shape for shape in found if shape and shape.label == label]


def _matched(human: Sequence[Shape], said: Sequence[Shape]) -> list[float]:
    """The IoU of each pair, 0 for a pair without an area; the shapes have one label."""
    if not human or not said:
        return []
    ious = shapes.ious(human, said, MIN_IOU)
    worth = np.where(ious >= MIN_IOU - _ROUNDING, ious, 0.0)
    near = shapes.distances(human, said) / MAX_DISTANCE
    # A point at the limit is worth what a box at its limit is.
    worth = np.where(near <= 1 + _ROUNDING, 1 - near * MIN_IOU, worth)
    worth[_same(human, said)] = 1.0
    rows, columns = linear_sum_assignment(worth, maximize=True)
    kept = worth[rows, columns] > 0
    return [float(iou) for iou in ious[rows[kept], columns[kept]]]


def _same(human: Sequence[Shape], said: Sequence[Shape]) -> np.ndarray:
    """Which pairs were stored alike, shape (n_human, n_said): so a shape of any form matches itself."""
    return np.array([[one.stored == other.stored for other in said] for one in human])
