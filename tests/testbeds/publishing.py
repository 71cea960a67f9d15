"""Publications and replays from their beginning to their end, for tests that do not look between."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from potato_ray.registry import Registry
from potato_ray.writeback import Publication, Replay, WritebackReport, WritebackSettings


def publish(
    registry: Registry,
    run_id: str,
    attempt: int,
    settings: WritebackSettings,
    headline: Mapping[str, Any] | None = None,
) -> WritebackReport:
    """The report of a whole publication."""
    return completed(Publication(registry, run_id, attempt, settings, headline))


def replay(registry: Registry, settings: WritebackSettings) -> WritebackReport:
    """The report of a whole replay."""
    return completed(Replay(registry, settings))


def completed(steps: Publication | Replay) -> WritebackReport:
    """The report after the last step."""
    while not steps.step():
        pass
    return steps.report()
