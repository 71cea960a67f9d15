"""The columns of an AnswerTable, and the order of its labels."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potato_ray.project.schemes import Scheme
from potato_ray.trainers import kinds


def value_columns(scheme: Scheme, values: list[Any]) -> dict[str, Any]:
    """The value fields of an AnswerTable."""
    if scheme.kind in (kinds.NOMINAL, kinds.ORDINAL):
        labels = _vocabulary(scheme, set(values))
        code = {label: number for number, label in enumerate(labels)}
        return {"labels": labels, "codes": np.array([code[value] for value in values], dtype=np.int32)}
    if scheme.kind == kinds.MULTILABEL:
        return _multilabel_columns(scheme, values)
    if scheme.kind == kinds.CONTINUOUS:
        return {"numbers": np.array(values, dtype=np.float64)}
    return {"objects": values}


def _multilabel_columns(scheme: Scheme, values: list[Any]) -> dict[str, Any]:
    labels = _vocabulary(scheme, {label for value in values for label in value})
    code = {label: number for number, label in enumerate(labels)}
    codes: NDArray[np.int32] = np.array(
        [number for value in values for number in sorted(code[label] for label in value)], dtype=np.int32
    )
    offsets = np.zeros(len(values) + 1, dtype=np.int64)
    np.cumsum([len(value) for value in values], out=offsets[1:])
    return {"labels": labels, "codes": codes, "offsets": offsets}


def _vocabulary(scheme: Scheme, seen: set[str]) -> list[str]:
    if scheme.kind == kinds.ORDINAL and scheme.labels:
        return list(scheme.labels)
    return in_scheme_order(scheme, seen)


def in_scheme_order(scheme: Scheme, labels: Collection[str]) -> list[str]:
    """`labels` in the scheme's order; sorted, numbers by value, where the scheme has no labels."""
    if scheme.labels:
        return [label for label in scheme.labels if label in labels]
    return sorted(labels, key=_number_first)


def _number_first(label: str) -> tuple[bool, float, str]:
    try:
        return False, float(label), label
    except ValueError:
        return True, 0.0, label
