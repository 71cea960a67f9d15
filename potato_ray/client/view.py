"""How a run and its predictions are looked at, for both clients; nothing here asks the server."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from importlib import import_module
from typing import Any

from potato_ray.client.failures import ClientError
from potato_ray.client.records import Headline, Prediction, RunRecord


class RunView:
    """The properties of a run. They ask nothing: `refresh` and `wait` bring them up to date."""

    def __init__(self, record: RunRecord) -> None:
        self._record = record

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id}: {self._record.step_line}>"

    @property
    def id(self) -> str:
        return self._record.run_id

    @property
    def record(self) -> RunRecord:
        """Everything that the server last told of it."""
        return self._record

    @property
    def status(self) -> str:
        """queued, building, running, evaluating, finishing, cancelling, or one of records.ENDED."""
        return self._record.status

    @property
    def ended(self) -> bool:
        return self._record.ended

    @property
    def position(self) -> int:
        """The place among the waiting runs, counted from 1; 0 for a run that does not wait."""
        return self._record.position

    @property
    def metrics(self) -> dict[str, Any]:
        """What the trainer measured and, once it is scored, the held-out metrics, such as val_macro_f1."""
        return {**self._record.metrics, **(self._record.scores.get("metrics") or {})}

    @property
    def headline(self) -> Headline | None:
        """The held-out score; None before it is there, and for a run that cannot be scored."""
        return Headline.from_json(self._record.headline) if self._record.headline else None

    @property
    def warnings(self) -> tuple[str, ...]:
        return self._record.warnings

    @property
    def writeback(self) -> Mapping[str, Any] | None:
        """What was published and what was not, with its `summary`; None before that."""
        return self._record.writeback


def require_pandas() -> Any:
    """The module pandas. Raises ClientError (missing_dependency) where it is not installed."""
    try:
        return import_module("pandas")
    except ImportError:
        raise ClientError(
            "to_pandas needs pandas, which is not installed here.",
            code="missing_dependency",
            next_step=f"{sys.executable} -m pip install pandas, or go through the predictions one by one.",
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
