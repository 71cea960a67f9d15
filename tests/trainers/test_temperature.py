"""Temperature scaling on val: kept only where it is measured to help."""

from __future__ import annotations

import numpy as np
import pytest

from potato_ray.trainers import kinds, temperature
from potato_ray.trainers.text_objective import Objective

OBJECTIVE = Objective(kinds.NOMINAL, ("no", "yes"))


def drawn(n_rows: int, sharpness: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Outputs and targets; the true log-odds are the outputs divided by `sharpness`."""
    random = np.random.default_rng(seed)
    log_odds = random.normal(0, 2, n_rows)
    coded = (random.random(n_rows) < 1 / (1 + np.exp(-log_odds))).astype(int)
    return np.stack([np.zeros(n_rows), log_odds * sharpness], axis=1), coded


def test_a_network_that_is_too_sure_gets_a_temperature_near_the_true_one() -> None:
    chosen = temperature.choose(OBJECTIVE, *drawn(2000, 4.0), seed=0)
    assert chosen.value == pytest.approx(4.0, rel=0.15)
    assert chosen.before is not None
    assert chosen.after is not None
    assert chosen.after < chosen.before


def test_one_that_is_as_sure_as_it_should_be_is_left_alone() -> None:
    chosen = temperature.choose(OBJECTIVE, *drawn(500, 1.0), seed=0)
    assert chosen.value == 1.0
    assert "no difference beyond chance" in chosen.reason


def test_few_rows_tell_nothing() -> None:
    chosen = temperature.choose(OBJECTIVE, *drawn(49, 4.0), seed=0)
    assert (chosen.value, chosen.reason) == (1.0, "49 val rows; 50 are needed to tell whether it helps")


def test_numbers_have_no_probabilities() -> None:
    numbers = Objective(kinds.CONTINUOUS, ())
    assert temperature.choose(numbers, np.zeros((99, 1)), np.zeros(99), seed=0).value == 1.0
