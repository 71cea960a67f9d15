"""Pruning a chunk at a time, so that a controller's other writes come in between."""

from __future__ import annotations

from collections.abc import Iterator

from potato_ray.registry.store import Registry


class Pruning:
    """Discards superseded predictions and prunes records: `step` until it returns True."""

    def __init__(self, registry: Registry, retain_runs: int) -> None:
        self._registry, self._retain_runs = registry, retain_runs
        self._steps: Iterator[str] | None = None

    def step(self) -> bool:
        """One transaction; True when nothing is left. After an error it may be called again."""
        if self._steps is None:
            self._steps = self._registry.prune_steps(self._retain_runs)
        try:
            return next(self._steps, None) is None
        except BaseException:
            self._steps = None  # what went is gone for good, so it begins anew
            raise
