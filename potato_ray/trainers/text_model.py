"""A fitted text model: features, estimators, calibration curves, and what they say of new texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping

from potato_ray.trainers import calibration
from potato_ray.trainers.answers import Answering
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.features import TextFeatures, Texts

FORMAT = 2
"""Of what is saved; 1 kept every pair of words as a text."""


@dataclass(frozen=True)
class TextModel(Answering):
    """Everything that predicting needs. `bounds` are the least and greatest value, for continuous."""

    kind: str
    labels: tuple[str, ...]
    features: TextFeatures
    estimators: list[Any]
    curves: tuple[calibration.Curve, ...]
    bounds: tuple[float, float]

    def answers(self, texts: Texts) -> Iterator[tuple[dict[str, Any], float | None]]:
        """(payload, confidence) of each item, in order; see `answers_of`."""
        yield from self.answers_of(self.features.transform(texts))

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "labels": list(self.labels),
            "features": self.features.state(),
            "estimators": self.estimators,
            "curves": calibration.curves_state(self.curves),
            "bounds": list(self.bounds),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> TextModel:
        """The model that `state` described. Raises TrainerError when another version has saved it."""
        if state["format"] != FORMAT:
            raise TrainerError(
                "validation_failed",
                f"The model is of format {state['format']}, and this version of potato_ray reads {FORMAT}.",
                "Train again, or use the version that saved it.",
            )
        return cls(
            kind=state["kind"],
            labels=tuple(state["labels"]),
            features=TextFeatures.from_state(state["features"]),
            estimators=list(state["estimators"]),
            curves=calibration.curves_from_state(state["curves"]),
            bounds=(state["bounds"][0], state["bounds"][1]),
        )
