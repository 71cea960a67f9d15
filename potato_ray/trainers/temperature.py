"""Temperature scaling on val (Guo et al. 2017): one number by which a network's outputs are divided.

It changes no answer, only how sure each is; what is divided for grades stands in text_objective.py. It is
judged on val rows that it was not fitted on, and kept when it lowers their log loss by more than twice the
standard error of the difference, as in calibration.py.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Callable

from potato_ray.trainers import kinds
from potato_ray.trainers.text_objective import Objective

MIN_ROWS = 50
PARTS = 5
_LOWEST, _HIGHEST = 0.05, 20.0
_STEPS = 60


@dataclass(frozen=True)
class Temperature:
    """`value` 1.0: none was kept. `before` and `after` are mean log losses of rows left out of the fit."""

    value: float
    reason: str
    before: float | None = None
    after: float | None = None
    n_rows: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "applied": self.value != 1.0,
            "method": "temperature",
            "temperature": self.value,
            "reason": self.reason,
            "metric": "log_loss",
            "before": self.before,
            "after": self.after,
            "n_rows": self.n_rows,
        }


def choose(objective: Objective, outputs: Any, coded: Any, seed: int) -> Temperature:
    """`outputs` is n × outputs, `coded` the n targets as train_rows has them."""
    import numpy as np

    n_rows = len(coded)
    if objective.kind == kinds.CONTINUOUS:
        return Temperature(1.0, "numbers have no probabilities")
    if n_rows < MIN_ROWS:
        return Temperature(
            1.0, f"{n_rows} val rows; {MIN_ROWS} are needed to tell whether it helps", n_rows=n_rows
        )
    part = np.random.default_rng(seed).permutation(n_rows) % PARTS
    before = objective.log_losses(outputs, coded)
    after = np.empty(n_rows)
    for number in range(PARTS):
        left_out = part == number
        value = _best(objective, outputs[~left_out], coded[~left_out])
        after[left_out] = objective.log_losses(outputs[left_out], coded[left_out], value)
    gain = before - after
    error = float(gain.std(ddof=1) / np.sqrt(n_rows))
    figures = (float(before.mean()), float(after.mean()), n_rows)
    words = f"log loss {figures[0]:.3f} without, {figures[1]:.3f} with it on {n_rows} val rows"
    if gain.mean() <= 2 * error:
        return Temperature(1.0, f"{words}: no difference beyond chance", *figures)
    return Temperature(_best(objective, outputs, coded), words, *figures)


def _best(objective: Objective, outputs: Any, coded: Any) -> float:
    def loss(log_value: float) -> float:
        return float(objective.log_losses(outputs, coded, math.exp(log_value)).mean())

    return math.exp(_golden(loss, math.log(_LOWEST), math.log(_HIGHEST)))


def _golden(of: Callable[[float], float], low: float, high: float) -> float:
    """Where a function with one valley is least (golden-section search)."""
    ratio = (5**0.5 - 1) / 2
    left, right = high - ratio * (high - low), low + ratio * (high - low)
    at_left, at_right = of(left), of(right)
    for _ in range(_STEPS):
        if at_left < at_right:
            high, right, at_right = right, left, at_left
            left = high - ratio * (high - low)
            at_left = of(left)
        else:
            low, left, at_left = left, right, at_right
            right = low + ratio * (high - low)
            at_right = of(right)
    return (low + high) / 2
