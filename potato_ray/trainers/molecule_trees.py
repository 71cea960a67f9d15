"""The trees that learn from molecules' features: histogram gradient boosting, or a random forest."""

from __future__ import annotations

import difflib
import os
from dataclasses import dataclass
from typing import Any, Callable, Mapping

from potato_ray.trainers import estimators, heads, kinds
from potato_ray.trainers.base import FitContext, TrainerError
from potato_ray.trainers.train_rows import TrainRows

BOOSTING, FOREST = "gradient_boosting", "random_forest"
NONE, BALANCED = "none", "balanced"
ROUNDS, TREES = 100, 300
MAX_BINS = 64
"""Boosting sorts each feature into so many bins. With scikit-learn's 255 it takes four times as long, and its
error on the solubility of other molecules was the same to 1 %."""
LEAST_IN_LEAF, MOST_IN_LEAF = 5, 20
"""Boosting's leaves hold an eighth of the rows at least, within these. scikit-learn's 20 can split nothing
below 40 rows; with 30 molecules the error was smallest at 5, with 60 at 10, with 120 and more at 20."""

_CLASSES = {
    (BOOSTING, False): "sklearn.ensemble.HistGradientBoostingClassifier",
    (BOOSTING, True): "sklearn.ensemble.HistGradientBoostingRegressor",
    (FOREST, False): "sklearn.ensemble.RandomForestClassifier",
    (FOREST, True): "sklearn.ensemble.RandomForestRegressor",
}
_NOT_TAKEN = frozenset({"categorical_features"})
"""Trees that ask for categories are not loaded: nothing says that their tables are sound."""


@dataclass(frozen=True)
class Trees:
    """How trees are made: the class, its arguments, and those that the user gave, which win."""

    found: type[Any]
    arguments: Mapping[str, Any]
    given: Mapping[str, Any]

    @classmethod
    def of(cls, context: FitContext) -> Trees:
        """As the parameters say. Raises TrainerError for an argument that the class does not take."""
        params, numbers = context.params, context.scheme.kind == kinds.CONTINUOUS
        found = estimators.resolve(_CLASSES[params["model"], numbers])
        arguments = _arguments(params, context.seed)
        if params["class_weights"] == BALANCED and not numbers:
            arguments["class_weight"] = BALANCED
        _check_given(found, params["model_kwargs"])
        _check_said_once(arguments, params)
        return cls(found, arguments, params["model_kwargs"])

    @property
    def name(self) -> str:
        return self.found.__name__

    def maker(self, n_rows: int) -> Callable[[], Any]:
        """A function that makes unfitted estimators for `n_rows` train rows."""
        arguments = {**self.arguments, "min_samples_leaf": self._least_in_leaf(n_rows), **self.given}
        return lambda: self.found(**arguments)

    def columns(self, matrix: Any) -> Any:
        """The numbers of the columns of `matrix` that can be split at all; the first where none can.

        A split leaves a leaf's least number of rows on both sides, so no tree would use the other columns.
        """
        import numpy as np

        n_rows = len(matrix)
        least = self.given.get("min_samples_leaf", self._least_in_leaf(n_rows))
        if not isinstance(least, int) or not 1 <= least <= n_rows // 2:
            least = 1
        ordered = np.partition(matrix, [least - 1, n_rows - least], axis=0)
        columns = np.flatnonzero(ordered[least - 1] < ordered[n_rows - least])
        return columns if columns.size else np.zeros(1, dtype=np.int64)

    def _least_in_leaf(self, n_rows: int) -> int:
        boosted = "max_bins" in self.arguments
        return min(MOST_IN_LEAF, max(LEAST_IN_LEAF, n_rows // 8)) if boosted else 1


def fit_trees(make: Callable[[], Any], kind: str, matrix: Any, rows: TrainRows) -> list[Any]:
    """Fit what `heads.score` asks. Raises TrainerError: validation_failed for arguments out of range."""
    try:
        fitted = heads.fit_heads(make, kind, matrix, rows.targets, len(rows.labels))
    except (TypeError, ValueError) as failure:
        raise TrainerError(
            "validation_failed", f"The model could not be fitted: {failure}", "Correct model_kwargs."
        ) from failure
    for head in fitted:
        if hasattr(head, "n_jobs"):
            head.n_jobs = None  # the threads of another machine are not for this file to say
    return fitted


def _arguments(params: Mapping[str, Any], seed: int) -> dict[str, Any]:
    n_estimators = params["n_estimators"]
    if params["model"] == FOREST:
        return {"n_estimators": n_estimators or TREES, "n_jobs": _threads(), "random_state": seed}
    return {
        "max_iter": n_estimators or ROUNDS,
        "max_bins": MAX_BINS,
        "early_stopping": False,
        "random_state": seed,
    }


def _check_given(found: type[Any], given: Mapping[str, Any]) -> None:
    known = [name for name in estimators.argument_names(found) if name not in _NOT_TAKEN]
    for name in given:
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            raise TrainerError(
                "validation_failed",
                f"model_kwargs: {found.__name__} does not take {name}; it takes {', '.join(known)}.",
                f"Did you mean {close[0]}?" if close else "Correct model_kwargs.",
            )


def _check_said_once(arguments: Mapping[str, Any], params: Mapping[str, Any]) -> None:
    """What a parameter of its own says is not said again, and otherwise, by model_kwargs."""
    rounds = "max_iter" if "max_iter" in arguments else "n_estimators"
    twice = {rounds: params["n_estimators"], "class_weight": arguments.get("class_weight")}
    for argument, own in twice.items():
        if own is not None and argument in params["model_kwargs"]:
            name = "class_weights" if argument == "class_weight" else "n_estimators"
            raise TrainerError(
                "validation_failed",
                f"{name} is {own}, and model_kwargs gives the same argument, {argument}, another time.",
                f"Leave {argument} out of model_kwargs, or {name}.",
            )


def _threads() -> int:
    """As many as the run may use."""
    told = os.environ.get("OMP_NUM_THREADS", "")
    if told.isdigit() and int(told):
        return int(told)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
