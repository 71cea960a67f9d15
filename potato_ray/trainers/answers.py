"""What fitted estimators say of new items: a label, a set of labels or a number, and how sure they are."""

from __future__ import annotations

from typing import Any, Iterator, Sequence

from potato_ray.trainers import calibration, heads, kinds


class Answering:
    """A model's way from features to answers.

    `estimators` are what `heads.fit_heads` gave for `kind` and `labels`, `curves` correct their
    probabilities, and `bounds` are the least and greatest value, for continuous.
    """

    kind: str
    labels: tuple[str, ...]
    estimators: list[Any]
    curves: tuple[calibration.Curve, ...]
    bounds: tuple[float, float]

    def answers_of(self, features: Any) -> Iterator[tuple[dict[str, Any], float | None]]:
        """(payload, confidence) of each row of `features`, n × f, in order.

        The confidence of a label is its probability; of a set of labels it is that of its least
        certain decision; numbers, and estimators without probabilities, have none.
        """
        if self.kind == kinds.CONTINUOUS:
            yield from self._values(features)
            return
        scores = heads.score(self.estimators, self.kind, features, len(self.labels))
        columns = calibration.apply(self.curves, scores)
        certain = columns is not None
        if not certain:
            columns = (scores.margins > 0).astype(float)
        if self.kind == kinds.MULTILABEL:
            yield from sets(columns, self.labels, certain)
        else:
            yield from single(self._by_label(columns, scores, certain), self.labels, certain)

    def train_score(self, features: Any, targets: Any) -> dict[str, float]:
        """How well the model fits its own train rows; says little about other items."""
        payloads = [payload for payload, _ in self.answers_of(features)]
        n_rows = len(payloads)
        if self.kind == kinds.CONTINUOUS:
            errors = [abs(payload["value"] - value) for payload, value in zip(payloads, targets.tolist())]
            return {"train_mae": sum(errors) / n_rows}
        if self.kind == kinds.MULTILABEL:
            wanted = [sorted(label for label, holds in zip(self.labels, row) if holds) for row in targets]
            right = sum(payload["labels"] == labels for payload, labels in zip(payloads, wanted))
            return {"train_subset_accuracy": right / n_rows}
        right = sum(payload["label"] == self.labels[code] for payload, code in zip(payloads, targets))
        return {"train_accuracy": right / n_rows}

    def _by_label(self, columns: Any, scores: heads.Scores, certain: bool) -> Any:
        if not certain and self.kind == kinds.NOMINAL and len(self.labels) > 2:
            return scores.margins  # the label with the greatest margin, whatever its sign
        return heads.label_probabilities(self.kind, columns, len(self.labels))

    def _values(self, features: Any) -> Iterator[tuple[dict[str, Any], float | None]]:
        import numpy as np

        values = np.clip(np.ravel(self.estimators[0].predict(features)), *self.bounds)
        for value in values.tolist():
            yield {"value": value}, None


def single(
    by_label: Any, labels: Sequence[str], certain: bool = True
) -> Iterator[tuple[dict[str, Any], float | None]]:
    """The label of each of n items by `by_label`, n × labels: probabilities, or margins if not `certain`."""
    chosen = by_label.argmax(axis=1).tolist()
    for label, row in zip(chosen, by_label.tolist()):
        if certain:
            yield {"label": labels[label], "probabilities": dict(zip(labels, row))}, row[label]
        else:
            yield {"label": labels[label]}, None


def sets(
    columns: Any, labels: Sequence[str], certain: bool = True
) -> Iterator[tuple[dict[str, Any], float | None]]:
    """The labels that hold for each of n items, by n × labels of probabilities (1 and 0 if not `certain`)."""
    for row in columns.tolist():
        holding = sorted(label for label, p in zip(labels, row) if p >= 0.5)
        if certain:
            yield (
                {"labels": holding, "probabilities": dict(zip(labels, row))},
                min(max(p, 1 - p) for p in row),
            )
        else:
            yield {"labels": holding}, None
