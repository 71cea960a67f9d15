"""A fitted text model: features, estimators, calibration curves, and what they say of new texts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping

from potato_ray.trainers import calibration, heads, kinds
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.features import TextFeatures, Texts

FORMAT = 2
"""Of what is saved; 1 kept every pair of words as a text."""


@dataclass(frozen=True)
class TextModel:
    """Everything that predicting needs. `bounds` are the least and greatest value, for continuous."""

    kind: str
    labels: tuple[str, ...]
    features: TextFeatures
    estimators: list[Any]
    curves: tuple[calibration.Curve, ...]
    bounds: tuple[float, float]

    def answers(self, texts: Texts) -> Iterator[tuple[dict[str, Any], float | None]]:
        """(payload, confidence) of each item, in order.

        The confidence of a label is its probability; of a set of labels it is that of its least
        certain decision; numbers, and estimators without probabilities, have none.
        """
        yield from self.answers_of(self.features.transform(texts))

    def answers_of(self, features: Any) -> Iterator[tuple[dict[str, Any], float | None]]:
        """The same for features that are at hand."""
        if self.kind == kinds.CONTINUOUS:
            yield from self._values(features)
            return
        scores = heads.score(self.estimators, self.kind, features, len(self.labels))
        columns = calibration.apply(self.curves, scores)
        certain = columns is not None
        if not certain:
            columns = (scores.margins > 0).astype(float)
        if self.kind == kinds.MULTILABEL:
            yield from self._sets(columns, certain)
        else:
            yield from self._single(self._by_label(columns, scores, certain), certain)

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

    def _by_label(self, columns: Any, scores: heads.Scores, certain: bool) -> Any:
        if not certain and self.kind == kinds.NOMINAL and len(self.labels) > 2:
            return scores.margins  # the label with the greatest margin, whatever its sign
        return heads.label_probabilities(self.kind, columns, len(self.labels))

    def _values(self, features: Any) -> Iterator[tuple[dict[str, Any], float | None]]:
        import numpy as np

        values = np.clip(np.ravel(self.estimators[0].predict(features)), *self.bounds)
        for value in values.tolist():
            yield {"value": value}, None

    def _single(self, by_label: Any, certain: bool) -> Iterator[tuple[dict[str, Any], float | None]]:
        chosen = by_label.argmax(axis=1).tolist()
        for label, row in zip(chosen, by_label.tolist()):
            if certain:
                yield {"label": self.labels[label], "probabilities": dict(zip(self.labels, row))}, row[label]
            else:
                yield {"label": self.labels[label]}, None

    def _sets(self, columns: Any, certain: bool) -> Iterator[tuple[dict[str, Any], float | None]]:
        for row in columns.tolist():
            holding = sorted(label for label, p in zip(self.labels, row) if p >= 0.5)
            if certain:
                confidence = min(max(p, 1 - p) for p in row)
                yield {"labels": holding, "probabilities": dict(zip(self.labels, row))}, confidence
            else:
                yield {"labels": holding}, None
