"""Shapes drawn on a picture, and how much two of them overlap.

Coordinates are fractions of the picture's width and height and may lie a little outside 0..1. A box is
{"x", "y", "width", "height"}, an outline (polygon) a list of three or more {"x", "y"}, a point (landmark)
{"x", "y"}. Boxes and outlines are compared by their exact areas, so a detector's box can match a drawn
outline; what an outline encloses is decided by the even-odd rule.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

# Wild coordinates of a model must not overflow the areas.
_FARTHEST = 1e6
# Work grows with the square of the corners: an outline with more is thinned evenly.
_MAX_CORNERS = 500
# Outlines that cross more often than this are scribbles: evenly spaced rows do for them.
_MAX_ROWS = 4000
_CELLS_AT_ONCE = 500_000

_NOTHING = np.empty((0, 2))


@dataclass(frozen=True, eq=False)
class Shape:
    """One labelled shape. `corners` has shape (n, 2): a point has 1, a box 2, an outline 3 or more.

    A shape of a form that is not known has none. `stored` is its type and coordinates as they came.
    """

    label: str
    stored: tuple[Any, Any]
    corners: np.ndarray

    @property
    def is_point(self) -> bool:
        return len(self.corners) == 1

    @property
    def is_box(self) -> bool:
        return len(self.corners) == 2

    @cached_property
    def bounds(self) -> np.ndarray:
        """x0, y0, x1, y1."""
        return (
            np.concatenate([self.corners.min(0), self.corners.max(0)]) if len(self.corners) else np.zeros(4)
        )

    @cached_property
    def outline(self) -> np.ndarray:
        """The corners all around, shape (n, 2); empty for what has no inside."""
        if self.is_box:
            x0, y0, x1, y1 = self.bounds
            return np.array([(x0, y0), (x1, y0), (x1, y1), (x0, y1)])
        return self.corners if len(self.corners) > 2 else _NOTHING

    @cached_property
    def area(self) -> float:
        """In fractions of the picture's area; 0 for what has no inside."""
        if self.is_box:
            return float(np.prod(self.bounds[2:] - self.bounds[:2]))
        return shared_area([self.outline]) if len(self.outline) else 0.0


def read(shape: Any) -> Shape | None:
    """The shape of {"type", "label", "coordinates"}; None for what is none."""
    match shape:
        case {"label": str(label), "coordinates": (dict() | list()) as coordinates}:
            return Shape(label, (shape.get("type"), coordinates), _corners(coordinates))
        case _:
            return None


def _corners(coordinates: Any) -> np.ndarray:
    match coordinates:
        case {"x": x, "y": y, "width": width, "height": height}:
            sides = _points([(x, y), (width, height)])
            return np.array([sides[0], sides.sum(0)]) if len(sides) else _NOTHING
        case {"x": x, "y": y}:
            return _points([(x, y)])
        case [_, _, _, *_]:
            every = math.ceil(len(coordinates) / _MAX_CORNERS)
            return _points([_xy(point) for point in coordinates[::every]])
        case _:
            return _NOTHING


def _xy(point: Any) -> tuple[Any, Any]:
    return (point.get("x"), point.get("y")) if isinstance(point, Mapping) else (None, None)


def _points(pairs: Sequence[tuple[Any, Any]]) -> np.ndarray:
    """Shape (n, 2); (0, 2) where anything is no number of a sensible size."""
    sensible = all(isinstance(n, int | float) and abs(n) <= _FARTHEST for pair in pairs for n in pair)
    return np.array(pairs, dtype=float) if sensible else _NOTHING


def ious(human: Sequence[Shape], said: Sequence[Shape], at_least: float) -> np.ndarray:
    """Intersection over union, shape (n_human, n_said); 0 for a pair that cannot reach `at_least`.

    `at_least` is above 0: following outlines costs a hundred times more than comparing bounds.
    """
    within = _overlap_of_bounds(human, said)
    area = np.array([shape.area for shape in human])[:, None]
    other_area = np.array([shape.area for shape in said])[None]
    # What is shared is no larger than within the bounds, and the union no smaller than either shape.
    possible = (within > 0) & (within >= (at_least - 1e-6) * np.maximum(area, other_area))
    shared = np.where(possible, within, 0.0)
    for row, column in np.argwhere(possible):
        one, other = human[row], said[column]
        if not (one.is_box and other.is_box):
            shared[row, column] = shared_area([one.outline, other.outline])
    union = area + other_area - shared
    return np.asarray(np.divide(shared, union, out=np.zeros_like(shared), where=union > 0).clip(max=1.0))


def _overlap_of_bounds(human: Sequence[Shape], said: Sequence[Shape]) -> np.ndarray:
    one = np.array([shape.bounds for shape in human]).reshape(-1, 1, 4)
    other = np.array([shape.bounds for shape in said]).reshape(1, -1, 4)
    sides = np.minimum(one[..., 2:], other[..., 2:]) - np.maximum(one[..., :2], other[..., :2])
    overlap: np.ndarray = sides.clip(min=0).prod(-1)
    return overlap


def distances(human: Sequence[Shape], said: Sequence[Shape]) -> np.ndarray:
    """Between points, as a share of the picture's diagonal; infinite where either is no point."""
    one = np.array([shape.bounds[:2] for shape in human]).reshape(-1, 1, 2)
    other = np.array([shape.bounds[:2] for shape in said]).reshape(1, -1, 2)
    points = np.array([s.is_point for s in human])[:, None] & np.array([s.is_point for s in said])[None]
    return np.where(points, np.hypot(*np.moveaxis(one - other, -1, 0)) / math.sqrt(2), np.inf)


def shared_area(outlines: Sequence[np.ndarray]) -> float:
    """The area inside all `outlines`, each of shape (n, 2); exact up to _MAX_ROWS corners and crossings.

    Between two neighbouring heights at which a corner or a crossing lies, what is shared consists of
    trapezoids; the width at half height times the height is their area.
    """
    starts = np.concatenate(outlines)
    ends = np.concatenate([np.roll(outline, -1, axis=0) for outline in outlines])
    owners = np.repeat(np.arange(len(outlines)), [len(outline) for outline in outlines])
    heights = np.unique(np.concatenate([starts[:, 1], _crossing_heights(starts, ends)]))
    if len(heights) > _MAX_ROWS:
        heights = np.linspace(heights[0], heights[-1], _MAX_ROWS + 1)
    middles, thick = (heights[1:] + heights[:-1]) / 2, np.diff(heights)
    at_once = max(1, _CELLS_AT_ONCE // len(starts))
    return float(
        sum(
            _shared_widths(middles[row : row + at_once], starts, ends, owners) @ thick[row : row + at_once]
            for row in range(0, len(middles), at_once)
        )
    )


def _crossing_heights(starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The y at which two edges cross between their ends."""
    along = ends - starts
    apart = starts[None] - starts[:, None]
    turn = _cross(along[:, None], along[None])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        at = _cross(apart, along[None]) / turn
        other_at = _cross(apart, along[:, None]) / turn
    crosses = (at > 0) & (at < 1) & (other_at > 0) & (other_at < 1)
    rows, _ = np.nonzero(crosses)
    return np.asarray(starts[rows, 1] + at[crosses] * along[rows, 1])


def _cross(one: np.ndarray, other: np.ndarray) -> np.ndarray:
    return np.asarray(one[..., 0] * other[..., 1] - one[..., 1] * other[..., 0])


def _shared_widths(rows: np.ndarray, starts: np.ndarray, ends: np.ndarray, owners: np.ndarray) -> np.ndarray:
    """How long each horizontal line at y = `rows` runs inside all outlines; shape (len(rows),)."""
    (x0, y0), (x1, y1) = starts.T, ends.T
    # Half open: where the row between two neighbouring floats is a corner, it meets one of its two edges.
    met = (np.minimum(y0, y1) <= rows[:, None]) & (rows[:, None] < np.maximum(y0, y1))
    rise = np.where(y1 == y0, 1.0, y1 - y0)
    where = np.where(met, x0 + (rows[:, None] - y0) / rise * (x1 - x0), np.inf)
    order = np.argsort(where, axis=1)
    where = np.take_along_axis(where, order, 1)
    passed = np.take_along_axis(met, order, 1)
    inside = np.ones((len(rows), len(starts) - 1), dtype=bool)
    for owner in range(int(owners[-1]) + 1):
        inside &= np.cumsum(passed & (owners[order] == owner), axis=1)[:, :-1] % 2 == 1
    steps = np.where(inside, where[:, 1:], 0.0) - np.where(inside, where[:, :-1], 0.0)
    return np.asarray(steps.sum(1))
