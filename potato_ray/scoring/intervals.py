"""Bootstrap intervals over items (Efron 1979, percentile method), vectorised and seeded."""

from __future__ import annotations

from collections.abc import Callable
from math import isclose

import numpy as np

N_RESAMPLES = 1000
LEVEL = 0.95
MIN_ITEMS = 10
"""The fewest items that a score has an interval on: fewer hold too few different resamples."""
_CELLS_AT_ONCE = 4_000_000


def resample_sums(
    per_item: np.ndarray,
    main_of: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> np.ndarray:
    """The main metric of resamples of the items, shape (n_resamples,); `per_item` has shape (n_items, k).

    A resample of n items is n draws with replacement; only how often each kind of item was drawn
    matters, so items with equal sums are drawn together.
    """
    kinds, counts = np.unique(per_item, axis=0, return_counts=True)
    shares = counts / len(per_item)
    return resample_cells(shares, len(per_item), lambda drawn: main_of(drawn @ kinds), rng, n_resamples)


def resample_cells(
    shares: np.ndarray,
    n_items: int,
    statistic: Callable[[np.ndarray], np.ndarray],
    rng: np.random.Generator,
    n_resamples: int = N_RESAMPLES,
) -> np.ndarray:
    """`statistic` of counts drawn from `shares`, shape (n_resamples,); it takes (m, n_cells) -> (m,)."""
    at_once = max(1, _CELLS_AT_ONCE // len(shares))
    values = []
    for start in range(0, n_resamples, at_once):
        drawn = rng.multinomial(n_items, shares, size=min(at_once, n_resamples - start))
        values.append(statistic(drawn))
    return np.concatenate(values)


def percentile_interval(values: np.ndarray, level: float = LEVEL) -> tuple[float, float] | None:
    """(low, high) of the middle `level` of the defined values; None where none is defined."""
    kept = values[np.isfinite(values)]
    if not len(kept):
        return None
    outside = (1 - level) / 2
    low, high = np.quantile(kept, [outside, 1 - outside])
    return float(low), float(high)


def believable_interval(values: np.ndarray, n_items: int) -> tuple[tuple[float, float] | None, str]:
    """(interval, "") of the resamples `values` of `n_items` items, or (None, why there is none).

    Where all resamples agree, as those of a faultless score do, the percentiles have no width: they would
    read as certainty where the items merely hold nothing to resample.
    """
    items = f"{n_items} item{'' if n_items == 1 else 's'}"
    interval = percentile_interval(values)
    if interval is None:
        return None, f"the score is undefined in every resample of {items}"
    if isclose(*interval, rel_tol=1e-9, abs_tol=1e-12):
        return None, f"every resample of {items} gives the same value"
    if n_items < MIN_ITEMS:
        return None, f"fewer than {MIN_ITEMS} items"
    return interval, ""
