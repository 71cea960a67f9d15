"""Metrics that have a value: an undefined one is left out, never NaN and never a made-up 0."""

from __future__ import annotations

import math


def defined(**values: float | None) -> dict[str, float]:
    """The finite ones among `values`, as plain floats."""
    return {
        name: float(value) for name, value in values.items() if value is not None and math.isfinite(value)
    }
