"""What both kinds of run know without asking: the run as the server last told it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from potato_ray.client.records import Headline, RunRecord


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
