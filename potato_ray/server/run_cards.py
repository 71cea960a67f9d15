"""What the card of a run under way shows, and the blank one that the page's script fills in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from potato_ray.server.overview import CurrentRun
from potato_ray.server.wording import number

KEY_METRICS = 6
"""So many figures are in a card; the page tells its script."""


def key_metrics(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The newest figures of a run under way, a few of them, counts last."""
    named = sorted(metrics.items(), key=lambda each: (each[0].startswith("n_"), each[0]))
    return [(name, number(value)) for name, value in named if value is not None][:KEY_METRICS]


BLANK_RUN = CurrentRun(
    run_id="",
    status="",
    trainer="",
    schemas=[],
    backend="",
    device="",
    attempt=1,
    begun_at=None,
    started_at=None,
    elapsed_s=0.0,
    step="",
    phase="",
    current=0.0,
    total=0.0,
    eta_s=None,
    metrics={},
    warnings=[],
    writeback=None,
    can_cancel=True,
)
"""For the template from which the page's script makes the card of a run that begins."""
