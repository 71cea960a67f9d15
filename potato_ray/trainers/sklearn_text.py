"""sklearn-text: a scikit-learn estimator on text features; runs on the CPU in well under a second."""

from __future__ import annotations

from pathlib import Path
from typing import Iterable, Iterator

from potato_ray.trainers import estimators, kinds
from potato_ray.trainers.base import (
    MIN_INSTANCES,
    FitContext,
    Licence,
    Param,
    Prediction,
    Requirement,
    Row,
    Trainer,
)


class SklearnText(Trainer):
    """TF-IDF and a linear model by default; any scikit-learn estimator by its dotted path."""

    name = "sklearn-text"
    description = "TF-IDF and logistic regression, or any scikit-learn estimator; fast, needs no GPU."
    kinds = (kinds.NOMINAL, kinds.ORDINAL, kinds.MULTILABEL, kinds.CONTINUOUS)
    params = (
        Param(
            "classifier",
            "dotted_path",
            None,
            "The estimator: a class of scikit-learn or its kin, by dotted path or short name. Left out: "
            "logistic regression, and ridge regression for numbers.",
            choices=tuple(estimators.SHORT_NAMES),
            optional=True,
            packages=estimators.PACKAGES,
        ),
        Param("classifier_kwargs", "mapping", {}, "Arguments of the estimator, such as {C: 2.0}."),
        Param(
            "vectorizer",
            "dotted_path",
            estimators.DEFAULT_VECTORIZER,
            "What turns texts into features, by dotted path or short name.",
            choices=tuple(estimators.SHORT_VECTORIZERS),
            packages=estimators.PACKAGES,
        ),
        Param("vectorizer_kwargs", "mapping", {}, "Arguments of the vectorizer, such as {min_df: 2}."),
        Param(
            "calibrate",
            "bool",
            True,
            "Correct the probabilities, when that is measured to help on texts left out of the fit.",
        ),
        MIN_INSTANCES,
    )
    requires = (
        Requirement("numpy", "numpy"),
        Requirement("scipy", "scipy"),
        Requirement("sklearn", "scikit-learn"),
        Requirement("skops", "skops"),
    )
    install_hint = "pip install scikit-learn skops"
    licence = Licence("BSD-3-Clause", "https://github.com/scikit-learn/scikit-learn/blob/main/COPYING")
    preload = (
        "sklearn.feature_extraction.text",
        "sklearn.linear_model",
        "sklearn.model_selection",
        "skops.io",
    )

    def fit(self, context: FitContext) -> dict[str, float]:
        raise NotImplementedError

    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        raise NotImplementedError

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> Trainer:
        raise NotImplementedError
