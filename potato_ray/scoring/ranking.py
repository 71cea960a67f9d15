"""Scores of orders of options: ranking, bws (best-worst scaling).

Kendall's tau (scipy's tau-b) of each item, mean over items. Options that one side leaves out come last
there, tied. A best-worst answer says nothing of the options between: only its own two are compared. A
missing prediction, and one that puts nothing in order, scores -1, the worst. An item with fewer than
two options has no order and is left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy import stats

from potato_ray.scoring.defined import defined

MAIN = "kendall_tau"
LOWER_IS_BETTER = False
METRICS = ("kendall_tau",)

BEST_WORST = "bws"
WORST = -1.0


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """kendall_tau, -1..1; absent where no item has two options."""
    sums = per_item(truth, answers, scheme).sum(0)
    return defined(kendall_tau=float(main_of(sums)) if sums[1] else None)


def tau(human: Sequence[str], order: Sequence[str] | None, only_human: bool = False) -> float | None:
    """Kendall's tau-b of two orders, best first; None where the human order has fewer than two options.

    `only_human` leaves out the options that the human order does not name.
    """
    if len(human) < 2:
        return None
    if order is None:
        return WORST
    options = list(human) if only_human else list(dict.fromkeys([*human, *order]))
    wanted, given = _positions(human, options), _positions(order, options)
    if len(set(given)) < 2:
        return WORST
    return float(stats.kendalltau(wanted, given).statistic)


def _order(said: Any) -> tuple[str, ...] | None:
    """A predicted order, None for what is none: no list, an option twice, something that is no option."""
    if not isinstance(said, list | tuple) or not all(isinstance(option, str) for option in said):
        return None
    return tuple(said) if len(set(said)) == len(said) else None


def _positions(order: Sequence[str], options: Sequence[str]) -> list[int]:
    place = {option: number for number, option in enumerate(order)}
    return [place.get(option, len(order)) for option in options]


def per_item(truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]) -> np.ndarray:
    """tau and 1 for each item, 0 and 0 for one without an order; shape (n_items, 2)."""
    only_human = scheme.get("annotation_type") == BEST_WORST
    # The same few orders come again and again, and scipy takes a third of a millisecond for each pair.
    tau_once = cache(lambda human, said: tau(human, said, only_human))
    values = [tau_once(tuple(human), _order(said)) for human, said in zip(truth, answers, strict=True)]
    rows = [(0.0, 0.0) if value is None else (value, 1.0) for value in values]
    return np.array(rows, dtype=float).reshape(-1, 2)


def main_of(sums: np.ndarray) -> np.ndarray:
    """kendall_tau of sums of `per_item`, shape (..., 2) -> (...); 0 without items."""
    return np.asarray(sums[..., 0] / np.maximum(sums[..., 1], 1))


def baseline(train: Sequence[Any], scheme: Mapping[str, Any]) -> list[str]:
    """The options by their mean rank in the train split, best first; ties in the scheme's order.

    Ranks run from 0 (best) to 1 (worst) of each answer, so that short and long answers weigh alike. A
    configured option that nobody ranked is put in the middle.
    """
    ranks: dict[str, list[float]] = {str(label): [] for label in scheme.get("labels") or ()}
    for order in train:
        for number, option in enumerate(order):
            ranks.setdefault(option, []).append(number / max(len(order) - 1, 1))
    return sorted(ranks, key=lambda option: np.mean(ranks[option]) if ranks[option] else 0.5)
