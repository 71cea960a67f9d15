"""Predictions that the tests of write-back are made of."""

from __future__ import annotations

from potato_ray.registry import StoredPrediction


def prediction(instance_id: str, label: str = "positive", confidence: float | None = 0.9) -> StoredPrediction:
    return StoredPrediction(instance_id, "sentiment", {"label": label}, confidence)
