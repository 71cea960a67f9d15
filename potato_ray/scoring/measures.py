"""Which module scores which kind of answer, and what of a prediction it looks at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np

from potato_ray.scoring import (
    boxes,
    classification,
    intervals,
    multilabel,
    ordinal,
    preference,
    ranking,
    regression,
    spans,
    text,
)
from potato_ray.trainers import kinds


class Measure(Protocol):
    """What every scoring module offers. `truth` are targets, `answers` predicted values or None."""

    @property
    def MAIN(self) -> str: ...  # noqa: N802 - a constant of the module
    @property
    def LOWER_IS_BETTER(self) -> bool: ...  # noqa: N802
    @property
    def METRICS(self) -> tuple[str, ...]: ...  # noqa: N802

    def metrics(
        self, truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
    ) -> dict[str, float]: ...

    def baseline(self, train: Sequence[Any], scheme: Mapping[str, Any]) -> Any: ...


MEASURES: Mapping[str, Measure] = {
    kinds.NOMINAL: classification,
    kinds.ORDINAL: ordinal,
    kinds.MULTILABEL: multilabel,
    kinds.CONTINUOUS: regression,
    kinds.TEXT: text,
    kinds.SPAN: spans,
    kinds.GEOMETRY: boxes,
    kinds.RANKING: ranking,
    kinds.PREFERENCE: preference,
}

ANSWER_KEYS: Mapping[str, str] = {
    kinds.NOMINAL: "label",
    kinds.ORDINAL: "label",
    kinds.MULTILABEL: "labels",
    kinds.CONTINUOUS: "value",
    kinds.TEXT: "text",
    kinds.SPAN: "spans",
    kinds.GEOMETRY: "objects",
    kinds.RANKING: "order",
    kinds.PREFERENCE: "label",
}
"""The key of a prediction's payload that holds the answer."""


def resampled(
    measure: Any,
    truth: Sequence[Any],
    answers: Sequence[Any | None],
    scheme: Mapping[str, Any],
    rng: np.random.Generator,
) -> np.ndarray:
    """The main metric of bootstrap resamples of the items, shape (intervals.N_RESAMPLES,)."""
    if hasattr(measure, "resampled"):
        drawn: np.ndarray = measure.resampled(truth, answers, scheme, rng, intervals.N_RESAMPLES)
        return drawn
    return intervals.resample_sums(measure.per_item(truth, answers, scheme), measure.main_of, rng)
