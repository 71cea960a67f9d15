"""Writing predictions.jsonl: streamed, checked, and there only when it is whole."""

from __future__ import annotations

import json
import math
import os
import time
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator

from potato_ray.job.bundle_files import PREDICTED, BundleFiles
from potato_ray.job.event_log import clean
from potato_ray.trainers.base import Prediction, Reporter, Row, Trainer, TrainerError

_encode = json.JSONEncoder(ensure_ascii=True, allow_nan=False).encode


class PredictionFile:
    """Predicts every split but train and writes one line a prediction.

    A line is {"instance_id", "schema_name", "payload", "confidence"}; the payload repeats the
    confidence, where the annotation pages look for it.
    """

    def __init__(
        self,
        path: Path,
        schema: str,
        reporter: Reporter,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.schema = schema
        self.reporter = reporter
        self.clock = clock

    def write(self, trainer: Trainer, bundle: BundleFiles) -> int:
        """Returns the number of predictions. Raises TrainerError when the trainer predicts foreign items."""
        partial = self.path.with_name(self.path.name + ".part")
        n_rows = bundle.n_rows()
        total = sum(n_rows.get(split, 0) for split in PREDICTED)
        started = self.clock()
        count = 0
        with partial.open("w", encoding="ascii") as handle:
            for split in PREDICTED:
                for prediction in _checked(trainer, bundle.rows(split), split):
                    handle.write(self._line(prediction))
                    count += 1
                    self._progress(count, total, started)
            handle.flush()
            os.fsync(handle.fileno())
        partial.replace(self.path)
        return count

    def _line(self, prediction: Prediction) -> str:
        confidence = _probability(prediction.confidence)
        payload = dict(clean(prediction.payload))
        if confidence is not None:
            payload["confidence"] = confidence
        body = {
            "instance_id": prediction.instance_id,
            "schema_name": self.schema,
            "payload": payload,
            "confidence": confidence,
        }
        return _encode(body) + "\n"

    def _progress(self, count: int, total: int, started: float) -> None:
        if count % 64 and count < total:
            return
        elapsed_s = self.clock() - started
        eta_s = elapsed_s / count * (total - count) if count < total else 0.0
        self.reporter.progress(count, total, round(eta_s, 1))


def _checked(trainer: Trainer, rows: Iterable[Row], split: str) -> Iterator[Prediction]:
    """The trainer's predictions, each of them for an item that it was given."""
    given: set[str] = set()

    def noted() -> Iterator[Row]:
        for row in rows:
            given.add(row["instance_id"])
            yield row

    for prediction in trainer.predict(noted()):
        if prediction.instance_id not in given:
            raise TrainerError(
                "fit_failed",
                f"{trainer.name} predicted {prediction.instance_id!r}, which is not in the {split} split.",
                "Report this to whoever made the trainer.",
            )
        yield prediction


def _probability(confidence: Any) -> float | None:
    if confidence is None:
        return None
    value = float(confidence)
    return min(1.0, max(0.0, value)) if math.isfinite(value) else None
