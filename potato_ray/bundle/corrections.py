"""What a reviewer put in place of a model's answer, as a target of the scheme."""

from __future__ import annotations

import math
from typing import Any

from potato_ray.project.schemes import Scheme
from potato_ray.trainers import kinds


def correction_target(scheme: Scheme, value: Any) -> Any:
    """The target that `value` names, or None where the scheme has no such answer."""
    if scheme.kind in (kinds.NOMINAL, kinds.ORDINAL):
        return _label(scheme, value)
    if scheme.kind in (kinds.MULTILABEL, kinds.RANKING):
        return _labels(scheme, value)
    if scheme.kind == kinds.CONTINUOUS:
        return _number(value)
    if scheme.kind == kinds.TEXT:
        return value.strip() or None if isinstance(value, str) else None
    is_list = isinstance(value, list) and all(isinstance(part, dict) for part in value)
    return value if is_list else None


def _label(scheme: Scheme, value: Any) -> str | None:
    return value if isinstance(value, str) and value in (scheme.labels or (value,)) else None


def _labels(scheme: Scheme, value: Any) -> list[str] | None:
    if not isinstance(value, (list, tuple)):
        return None
    labels = [label for label in (_label(scheme, part) for part in value) if label is not None]
    if len(set(labels)) != len(value):
        return None
    return labels if scheme.kind == kinds.RANKING else sorted(labels)


def _number(value: Any) -> float | None:
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return number if math.isfinite(number) else None
