"""A scikit-learn model on disk: model.skops, and model_card.json beside it.

skops rebuilds objects from a description and builds only types that it is told to trust. We trust what
skops itself does (scikit-learn, numpy and scipy types) and the names below, never what a file asks for.
"""

from __future__ import annotations

import json
import os
import platform
import warnings
from pathlib import Path
from typing import Any, Mapping

from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.soundness import unsound_parts

MODEL = "model.skops"
CARD = "model_card.json"
CALIBRATION = "calibration.json"

TRUSTED = frozenset(
    {
        "catboost.core.CatBoostClassifier",
        "catboost.core.CatBoostRegressor",
        "collections.OrderedDict",
        "imblearn.ensemble._bagging.BalancedBaggingClassifier",
        "imblearn.ensemble._easy_ensemble.EasyEnsembleClassifier",
        "imblearn.ensemble._forest.BalancedRandomForestClassifier",
        "imblearn.ensemble._weight_boosting.RUSBoostClassifier",
        "imblearn.pipeline.Pipeline",
        "imblearn.under_sampling._prototype_selection._random_under_sampler.RandomUnderSampler",
        "lightgbm.basic.Booster",
        "lightgbm.sklearn.LGBMClassifier",
        "lightgbm.sklearn.LGBMRegressor",
        "scipy.sparse._csr.csr_matrix",
        "sklearn._loss._loss.CyAbsoluteError",
        "sklearn._loss._loss.CyExponentialLoss",
        "sklearn._loss._loss.CyHalfBinomialLoss",
        "sklearn._loss._loss.CyHalfGammaLoss",
        "sklearn._loss._loss.CyHalfMultinomialLoss",
        "sklearn._loss._loss.CyHalfPoissonLoss",
        "sklearn._loss._loss.CyHalfSquaredError",
        "sklearn._loss._loss.CyHuberLoss",
        "sklearn._loss._loss.CyPinballLoss",
        "sklearn._loss.link.HalfLogitLink",
        "sklearn._loss.link.IdentityLink",
        "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogLink",
        "sklearn._loss.link.LogitLink",
        "sklearn._loss.link.MultinomialLogit",
        "sklearn._loss.loss.AbsoluteError",
        "sklearn._loss.loss.ExponentialLoss",
        "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfGammaLoss",
        "sklearn._loss.loss.HalfMultinomialLoss",
        "sklearn._loss.loss.HalfPoissonLoss",
        "sklearn._loss.loss.HalfSquaredError",
        "sklearn._loss.loss.HuberLoss",
        "sklearn._loss.loss.PinballLoss",
        "sklearn.ensemble._gb_losses.BinomialDeviance",
        "sklearn.ensemble._gb_losses.ExponentialLoss",
        "sklearn.ensemble._gb_losses.HuberLossFunction",
        "sklearn.ensemble._gb_losses.LeastAbsoluteError",
        "sklearn.ensemble._gb_losses.LeastSquaresError",
        "sklearn.ensemble._gb_losses.MultinomialDeviance",
        "sklearn.ensemble._gb_losses.QuantileLossFunction",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.neural_network._stochastic_optimizers.AdamOptimizer",
        "sklearn.neural_network._stochastic_optimizers.SGDOptimizer",
        "sklearn.tree._tree.Tree",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
        "xgboost.sklearn.XGBRegressor",
    }
)
"""Types beyond skops' own list that a model file may hold; losses and bins are on it in newer versions alone.

soundness.py checks the trees and sparse matrices, whose indices compiled code would follow anywhere.
"""


class ModelVersionWarning(UserWarning):
    """A model was fitted with another version of its library than the one that loads it."""


def versions() -> dict[str, str]:
    """The versions that a model depends on."""
    import numpy
    import scipy
    import sklearn
    import skops

    return {
        "python": platform.python_version(),
        "scikit-learn": sklearn.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "skops": skops.__version__,
    }


def save_model(artifacts: Path, state: Mapping[str, Any]) -> None:
    """Write model.skops. Raises TrainerError when it would hold a type that loading refuses."""
    from potato_ray.trainers.skops_alone import io

    data = io.dumps(dict(state))
    refused = _refused_types(data)
    if refused:
        raise TrainerError(
            "validation_failed",
            f"This model cannot be saved so that loading it is safe: it holds {', '.join(refused)}.",
            "Choose another classifier or vectorizer.",
        )
    temporary = artifacts / (MODEL + ".part")
    temporary.write_bytes(data)
    os.replace(str(temporary), str(artifacts / MODEL))


def load_model(artifacts: Path) -> dict[str, Any]:
    """What `save_model` wrote. Raises TrainerError, without running anything that the file brings."""
    from potato_ray.trainers.skops_alone import io

    data = _read(artifacts / MODEL)
    try:
        refused = _refused_types(data)
        with warnings.catch_warnings():
            # scikit-learn says for each part what check_versions says once.
            warnings.filterwarnings("ignore", message="Trying to unpickle estimator")
            model = {} if refused else dict(io.loads(data, trusted=sorted(TRUSTED)))
        faults = unsound_parts(model)
    except Exception as failure:  # whatever skops raises on a file that it did not write
        raise _not_loaded(
            f"it is no model of this program ({type(failure).__name__}: {failure})"
        ) from failure
    if refused:
        raise _not_loaded(f"it asks for {', '.join(refused)}, which no model of this program holds")
    if faults:
        raise _not_loaded(faults[0])
    return model


def _not_loaded(reason: str) -> TrainerError:
    return TrainerError(
        "validation_failed",
        f"{MODEL} was not loaded: {reason}.",
        "Do not use this file; copy the run's artifacts again, or train again.",
    )


def write_json(path: Path, body: Mapping[str, Any]) -> None:
    """Write a small JSON file aside and rename it."""
    temporary = path.with_name(path.name + ".part")
    temporary.write_text(json.dumps(body, indent=1, ensure_ascii=True), encoding="utf-8")
    os.replace(str(temporary), str(path))


def read_card(artifacts: Path) -> dict[str, Any]:
    """model_card.json. Raises TrainerError when it is missing or no JSON object."""
    try:
        card = json.loads(_read(artifacts / CARD).decode("utf-8"))
    except ValueError as failure:
        raise TrainerError("validation_failed", f"{CARD} is no JSON: {failure}", "Train again.") from failure
    if not isinstance(card, dict):
        raise TrainerError("validation_failed", f"{CARD} holds no JSON object.", "Train again.")
    return card


def check_versions(card: Mapping[str, Any]) -> None:
    """Compare scikit-learn's version with the one that fitted the model.

    Another major version is refused (TrainerError), another minor one is warned of
    (ModelVersionWarning): such models load as a rule, but nobody promises the same predictions.
    """
    import sklearn

    here = sklearn.__version__
    there = str(dict(card.get("versions") or {}).get("scikit-learn", ""))
    if there.split(".")[:2] == here.split(".")[:2]:
        return
    advice = f"install scikit-learn {there} or train again" if there else "train again"
    if there.split(".")[0] != here.split(".")[0]:
        message = f"The model was fitted with scikit-learn {there or '(unknown)'}; this is {here}."
        raise TrainerError("validation_failed", message, advice[0].upper() + advice[1:] + ".")
    warnings.warn(
        f"The model was fitted with scikit-learn {there} and is used with {here}; its predictions may "
        f"differ. To be sure, {advice}.",
        ModelVersionWarning,
        stacklevel=2,
    )


def _refused_types(data: bytes) -> list[str]:
    from potato_ray.trainers.skops_alone import io

    return sorted(name for name in io.get_untrusted_types(data=data) if name not in TRUSTED)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as failure:
        raise TrainerError(
            "validation_failed",
            f"{path.name} cannot be read: {failure.strerror}.",
            "Choose a run whose model files are on this machine.",
        ) from failure
