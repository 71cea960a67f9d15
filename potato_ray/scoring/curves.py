"""Training curves: the metrics that a worker reported step by step."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from potato_ray.scoring import pictures

Curve = list[tuple[float, float]]


def curves_in(events: Path) -> dict[str, Curve]:
    """(step, value) of every metric in events.jsonl that was reported at two steps or more."""
    found: dict[str, Curve] = {}
    with events.open(encoding="utf-8", errors="replace") as handle:
        for line in handle:
            if '"metric"' in line:
                _add(found, line)
    return {name: points for name, points in found.items() if len({step for step, _ in points}) > 1}


def _add(found: dict[str, Curve], line: str) -> None:
    try:
        event = json.loads(line)
        if event["event"] == "metric":
            found.setdefault(str(event["name"]), []).append((float(event["step"]), float(event["value"])))
    except (ValueError, KeyError, TypeError, OverflowError):
        return  # a torn line, a metric without a step, or a number too large to draw


def write_curves(curves: Mapping[str, Sequence[tuple[float, float]]], folder: Path) -> Path | None:
    """Draw the curves into `folder`/curves.svg; None where there are none."""
    if not curves:
        return None
    svg = pictures.curves(curves, "Metrics during training", "step", "value")
    return pictures.write(folder, "curves.svg", svg)
