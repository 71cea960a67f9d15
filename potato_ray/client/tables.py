"""Predictions as a table, for those who have pandas."""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from potato_ray.client.failures import ClientError
from potato_ray.client.records import Prediction


def require_pandas() -> Any:
    """The module pandas. Raises ClientError (missing_dependency) where it is not installed."""
    try:
        return import_module("pandas")
    except ImportError:
        raise ClientError(
            "to_pandas needs pandas, which is not installed here.",
            code="missing_dependency",
            next_step="pip install pandas, or go through the predictions one by one.",
        ) from None


def table_of(predictions: Iterable[Prediction]) -> Any:
    """A pandas.DataFrame: instance_id, schema_name, the members of the payload, confidence."""
    rows = [
        {
            "instance_id": each.instance_id,
            "schema_name": each.schema_name,
            **{name: value for name, value in each.payload.items() if name not in _OURS},
            "confidence": each.confidence,
        }
        for each in predictions
    ]
    return require_pandas().DataFrame(rows, columns=None if rows else list(_OURS))


_OURS = ("instance_id", "schema_name", "confidence")
