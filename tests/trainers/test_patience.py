"""When a training ends before its last epoch."""

from __future__ import annotations

import math

from potato_ray.trainers.patience import Patience


def ends_after(patience: Patience, *epochs: tuple[float, float], steps: int = 10) -> int:
    """The number of the epoch, of (worth, loss) each, at which patience is over; 0: never."""
    for number, (worth, loss) in enumerate(epochs, start=1):
        if patience.is_over(number * steps, worth, loss):
            return number
    return 0


def test_it_is_over_after_so_many_epochs_without_a_better_one() -> None:
    epochs = [(0.5, 0.6), (0.7, 0.5), (0.6, 0.7), (0.7, 0.5), (0.6, 0.6), (0.9, 0.1)]
    assert ends_after(Patience(3, warmup=0), *epochs) == 5


def test_a_better_score_begins_it_anew_and_so_does_a_lower_loss() -> None:
    assert ends_after(Patience(2, 0), (0.5, 0.6), (0.4, 0.7), (0.6, 0.8), (0.5, 0.9), (0.6, 0.6)) == 5
    assert ends_after(Patience(2, 0), (0.5, 0.6), (0.4, 0.5), (0.4, 0.4), (0.4, 0.3), (0.4, 0.2)) == 0


def test_epochs_of_the_warm_up_do_not_count() -> None:
    worse = [(0.5, 0.6)] + [(0.4, 0.7)] * 8
    assert ends_after(Patience(3, warmup=40), *worse) == 7
    assert ends_after(Patience(3, warmup=0), *worse) == 4


def test_a_loss_that_drifts_is_no_better_one_until_it_has_gone_far_enough() -> None:
    drifting = [(0.5, 0.6 - 1e-6 * number) for number in range(20)]
    assert ends_after(Patience(3, 0), *drifting) == 4
    falling = [(0.5, 0.6 - 3e-4 * number) for number in range(20)]
    assert ends_after(Patience(3, 0), *falling) == 0


def test_a_loss_that_is_no_number_is_no_better_one() -> None:
    assert ends_after(Patience(2, 0), (0.5, math.nan), (0.5, math.nan), (0.5, math.nan)) == 3
