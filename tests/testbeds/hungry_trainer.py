"""A trainer that needs a gibibyte of memory."""

from __future__ import annotations

from playing_trainer import Playing

from potato_ray.trainers.base import FitContext


class Hungry(Playing):
    """Playing, with that in its hands."""

    name = "hungry"
    description = "Needs a gibibyte."

    def fit(self, context: FitContext) -> dict[str, float]:
        self.memory = b"x" * 2**30
        return super().fit(context)
