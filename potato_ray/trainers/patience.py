"""How long a training without a better epoch goes on."""

from __future__ import annotations

import math
from dataclasses import dataclass

from potato_ray.trainers.epoch_choice import TIE

LOWER = 1e-3
"""A loss counts as better where it is lower by this share; less is drift."""


@dataclass
class Patience:
    """When to stop: after `epochs` without one that is better on val by its worth, or by its loss.

    On a few val items the score goes in jumps, while the loss falls: as long as it does, the model learns.
    Epochs that end within the `warmup` steps, before the learning rate is at its full value, do not count.
    """

    epochs: int
    warmup: int
    waited: int = 0
    most_worth: float = -math.inf
    least_loss: float = math.inf

    def is_over(self, step: int, worth: float, loss: float) -> bool:
        """Told of each epoch's end; `worth` is epoch_choice's, which has the loss for a tie."""
        lower = loss < self.least_loss * (1 - LOWER)
        better = lower or worth > self.most_worth + TIE
        self.most_worth = max(self.most_worth, worth)
        self.least_loss = loss if lower else self.least_loss
        self.waited = 0 if better or step <= self.warmup else self.waited + 1
        return self.waited >= self.epochs
