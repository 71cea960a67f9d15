"""The scores of one split: metrics, interval, baseline, and what a person wants to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from potato_ray.scoring import classification, multilabel, ordinal
from potato_ray.scoring.calibration import reliability
from potato_ray.scoring.intervals import believable_interval
from potato_ray.scoring.measures import ANSWER_KEYS, MEASURES, resampled
from potato_ray.scoring.mistakes import Mistake, errors_of, worst_of
from potato_ray.trainers import kinds

LABELLED = (kinds.NOMINAL, kinds.ORDINAL, kinds.PREFERENCE)


@dataclass(frozen=True)
class Prediction:
    """What a run said of one item: the answer, and how sure it was (0..1 or None).

    `nearest_similarity`, where the trainer tells it, is how like a train item the item is (0..1).
    """

    answer: Any
    confidence: float | None
    nearest_similarity: float | None = None


@dataclass(frozen=True)
class SplitScores:
    """One split's scores; `metrics` have no split in their names.

    `interval` and `baseline` belong to the main metric; without an interval, `interval_note` says why.
    `confusion` is {"labels", "predicted", "matrix"} with rows of human labels; `bins` and `ece` are there
    where predictions have confidences; `mistakes` are the worst wrong predictions, of `n_wrong`.
    """

    n_items: int
    n_predicted: int
    metrics: Mapping[str, float]
    interval: tuple[float, float] | None = None
    interval_note: str = ""
    baseline: float | None = None
    baseline_answer: Any = None
    confusion: Mapping[str, Any] | None = None
    per_label: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    bins: Sequence[Mapping[str, Any]] = ()
    ece: float | None = None
    mistakes: Sequence[Mistake] = ()
    n_wrong: int = 0

    @property
    def coverage(self) -> float:
        """The share of the labelled items that got a prediction."""
        return self.n_predicted / self.n_items


def score_split(
    targets: Mapping[str, Any],
    predictions: Mapping[str, Prediction],
    scheme: Mapping[str, Any],
    train: Sequence[Any],
    rng: np.random.Generator,
) -> SplitScores:
    """Score the predictions of the items in `targets` (not empty); the baseline is fitted on `train`."""
    kind = str(scheme["kind"])
    measure = MEASURES[kind]
    truth = list(targets.values())
    said = [predictions.get(item) for item in targets]
    answers = [each.answer if each is not None else None for each in said]
    constant = measure.baseline(train, scheme) if train else None
    drawn = resampled(measure, truth, answers, scheme, rng)
    interval, interval_note = believable_interval(drawn, len(truth))
    bins, ece = _reliability(kind, scheme, truth, said)
    mistakes, n_wrong = _mistakes(kind, scheme, targets, said)
    return SplitScores(
        n_items=len(truth),
        n_predicted=sum(each is not None for each in said),
        metrics=measure.metrics(truth, answers, scheme),
        interval=interval,
        interval_note=interval_note,
        baseline=_constant_score(measure, truth, constant, scheme),
        baseline_answer=constant,
        confusion=_confusion(kind, truth, answers, scheme),
        per_label=_per_label(kind, truth, answers),
        bins=bins,
        ece=ece,
        mistakes=mistakes,
        n_wrong=n_wrong,
    )


def _constant_score(
    measure: Any, truth: Sequence[Any], constant: Any, scheme: Mapping[str, Any]
) -> float | None:
    if constant is None:
        return None
    found: float | None = measure.metrics(truth, [constant] * len(truth), scheme).get(measure.MAIN)
    return found


def _confusion(
    kind: str, truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, Any] | None:
    if kind not in LABELLED:
        return None
    labels, matrix = classification.confusion(truth, answers)
    if kind == kinds.ORDINAL:
        order = [label for label in ordinal.scale_of(truth, scheme) if label in labels]
        place = [labels.index(label) for label in order]
        labels, matrix = order, matrix[np.ix_(place, [*place, len(labels)])]
    predicted = [*labels, "other or none"]
    if not matrix[:, -1].any():
        predicted, matrix = list(labels), matrix[:, :-1]
    return {"labels": labels, "predicted": predicted, "matrix": matrix.tolist()}


def _per_label(
    kind: str, truth: Sequence[Any], answers: Sequence[Any | None]
) -> Mapping[str, Mapping[str, float]]:
    if kind in LABELLED:
        return classification.per_label(truth, answers)
    return multilabel.per_label(truth, answers) if kind == kinds.MULTILABEL else {}


def _reliability(
    kind: str, scheme: Mapping[str, Any], truth: Sequence[Any], said: Sequence[Prediction | None]
) -> tuple[list[dict[str, Any]], float | None]:
    if kind not in (*LABELLED, kinds.MULTILABEL):
        return [], None
    sure = [
        (each.confidence, target, each.answer)
        for target, each in zip(truth, said, strict=True)
        if each is not None and each.confidence is not None
    ]
    if not sure:
        return [], None
    errors = errors_of(kind, scheme, [row[1] for row in sure], [row[2] for row in sure])
    return reliability([row[0] for row in sure], [error == 0 for error in errors])


def _mistakes(
    kind: str,
    scheme: Mapping[str, Any],
    targets: Mapping[str, Any],
    said: Sequence[Prediction | None],
) -> tuple[list[Mistake], int]:
    """The worst wrong predictions, and their number; an item without a prediction is none of them."""
    predicted = [
        (item, target, each.answer, each.confidence)
        for (item, target), each in zip(targets.items(), said, strict=True)
        if each is not None
    ]
    worst, n_wrong = worst_of(kind, scheme, predicted)
    nearest = {item: each.nearest_similarity for item, each in zip(targets, said, strict=True) if each}
    return [replace(each, nearest_similarity=nearest[each.instance_id]) for each in worst], n_wrong


def answer_of(kind: str, payload: Mapping[str, Any]) -> Any:
    """The answer in a prediction's payload, None when it is not there."""
    return payload.get(ANSWER_KEYS[kind])
