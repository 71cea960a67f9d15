"""Which scikit-learn-style estimators may be named, and how a name becomes a class."""

from __future__ import annotations

import difflib
import importlib
import inspect
from typing import Any, Mapping, Sequence, cast

from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.installing import missing_dependency

PACKAGES = ("sklearn", "xgboost", "lightgbm", "catboost", "imblearn")
"""Top-level packages that a dotted path may name; nothing else is ever imported for a parameter."""

DEFAULT_VECTORIZER = "sklearn.feature_extraction.text.TfidfVectorizer"

SHORT_NAMES = {
    "AdaBoostClassifier": "sklearn.ensemble.AdaBoostClassifier",
    "BernoulliNB": "sklearn.naive_bayes.BernoulliNB",
    "ComplementNB": "sklearn.naive_bayes.ComplementNB",
    "DecisionTreeClassifier": "sklearn.tree.DecisionTreeClassifier",
    "DecisionTreeRegressor": "sklearn.tree.DecisionTreeRegressor",
    "DummyClassifier": "sklearn.dummy.DummyClassifier",
    "DummyRegressor": "sklearn.dummy.DummyRegressor",
    "ElasticNet": "sklearn.linear_model.ElasticNet",
    "ExtraTreesClassifier": "sklearn.ensemble.ExtraTreesClassifier",
    "ExtraTreesRegressor": "sklearn.ensemble.ExtraTreesRegressor",
    "GradientBoostingClassifier": "sklearn.ensemble.GradientBoostingClassifier",
    "GradientBoostingRegressor": "sklearn.ensemble.GradientBoostingRegressor",
    "KNeighborsClassifier": "sklearn.neighbors.KNeighborsClassifier",
    "KNeighborsRegressor": "sklearn.neighbors.KNeighborsRegressor",
    "Lasso": "sklearn.linear_model.Lasso",
    "LinearSVC": "sklearn.svm.LinearSVC",
    "LinearSVR": "sklearn.svm.LinearSVR",
    "LogisticRegression": "sklearn.linear_model.LogisticRegression",
    "MLPClassifier": "sklearn.neural_network.MLPClassifier",
    "MLPRegressor": "sklearn.neural_network.MLPRegressor",
    "MultinomialNB": "sklearn.naive_bayes.MultinomialNB",
    "NearestCentroid": "sklearn.neighbors.NearestCentroid",
    "Perceptron": "sklearn.linear_model.Perceptron",
    "RandomForestClassifier": "sklearn.ensemble.RandomForestClassifier",
    "RandomForestRegressor": "sklearn.ensemble.RandomForestRegressor",
    "Ridge": "sklearn.linear_model.Ridge",
    "RidgeClassifier": "sklearn.linear_model.RidgeClassifier",
    "SGDClassifier": "sklearn.linear_model.SGDClassifier",
    "SGDRegressor": "sklearn.linear_model.SGDRegressor",
    "SVC": "sklearn.svm.SVC",
    "SVR": "sklearn.svm.SVR",
}
"""Classifiers and regressors that may be written without their path."""

SHORT_VECTORIZERS = {
    "CountVectorizer": "sklearn.feature_extraction.text.CountVectorizer",
    "HashingVectorizer": "sklearn.feature_extraction.text.HashingVectorizer",
    "TfidfVectorizer": DEFAULT_VECTORIZER,
}
"""Vectorizers that may be written without their path."""

_MANY_LABELS: Mapping[str, Any] = {"solver": "newton-cg"}
_YES_OR_NO: Mapping[str, Any] = {"solver": "liblinear", "dual": True}
"""Coordinate descent in the dual: between 40 and 14,000 texts its log loss on other texts was that of
newton-cg to 0.001 (smaller by up to 0.005 with few texts of a rare label), in a seventh to half of the
time. It knows no more than two labels at once."""
_CHOOSES_ANOTHER = frozenset({"solver", "penalty", "l1_ratio", "dual"})
"""Arguments that may not go with the solvers above."""

_C_EMBEDDED = 3.0
"""Of seven from 0.3 to 100, with all-MiniLM-L6-v2's embeddings of 100 to 4,000 review sentences, it had the
least log loss on other sentences, or 0.002 more."""

CLASSIFIER = "classifier"
REGRESSOR = "regressor"
VECTORIZER = "vectorizer"


def default_estimator(
    role: str, given: Mapping[str, Any], many: bool, embedded: bool = False
) -> tuple[str, Mapping[str, Any]]:
    """(short name, arguments) of the estimator that is used where none is named.

    `given` are arguments of the user's, which win; `many`: it has to tell more than two labels apart;
    `embedded`: its features are embeddings of length 1.
    """
    if role == REGRESSOR:
        return "Ridge", {"alpha": 0.5, **given}
    solver = _MANY_LABELS if many else _YES_OR_NO
    if "solver" in given:
        solver = {}
    elif _CHOOSES_ANOTHER & given.keys():
        solver = {"solver": solver["solver"]}
    return "LogisticRegression", {"C": _C_EMBEDDED if embedded else 5.0, "max_iter": 1000, **solver, **given}


def build(role: str, name: str, kwargs: Mapping[str, Any], seed: int) -> Any:
    """An unfitted estimator of class `name` (dotted path or short name) with `kwargs`.

    `role` is CLASSIFIER, REGRESSOR or VECTORIZER. The seed is passed as random_state where the class
    takes one and `kwargs` does not say it. Raises TrainerError: validation_failed for a class that
    does not exist or does not fit the role and for arguments that it does not take,
    missing_dependency for a package that is not installed.
    """
    found = resolve(name)
    _check_role(role, name, found)
    arguments = _arguments(role, found, kwargs)
    if "random_state" in argument_names(found) and "random_state" not in arguments:
        arguments["random_state"] = seed
    try:
        return found(**arguments)
    except (TypeError, ValueError) as failure:
        raise _refused(
            f"{found.__name__} could not be made: {failure}", f"Correct {_kwargs_name(role)}."
        ) from failure


def resolve(name: str) -> type[Any]:
    """The class that a dotted path or short name stands for. Raises TrainerError, see `build`."""
    path = full_path(name)
    module_name, _, class_name = path.rpartition(".")
    package = path.partition(".")[0]
    if not module_name or package not in PACKAGES or any(part.startswith("_") for part in path.split(".")):
        raise _refused(
            f"{name} is no estimator of {', '.join(PACKAGES)}.",
            _suggestion(name, [*SHORT_NAMES, *SHORT_VECTORIZERS]),
        )
    module = _module(module_name, path)
    found = getattr(module, class_name, None)
    if found is None:
        raise _refused(
            f"There is no {class_name} in {module_name}.", _suggestion(class_name, _classes_in(module))
        )
    if not _is_estimator(found):
        raise _refused(
            f"{path} is no estimator: a class with fit and get_params is needed.", _ESTIMATOR_ADVICE
        )
    return cast("type[Any]", found)


def full_path(name: str) -> str:
    """The dotted path that a short name stands for; any other name unchanged."""
    return SHORT_NAMES.get(name) or SHORT_VECTORIZERS.get(name) or name


def argument_names(found: type[Any]) -> list[str]:
    """The names of the arguments that an estimator's class takes, in its order."""
    return [p.name for p in _parameters(found) if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]


_ESTIMATOR_ADVICE = "Name a class such as sklearn.svm.LinearSVC."


def _module(module_name: str, path: str) -> Any:
    try:
        return importlib.import_module(module_name)
    except ModuleNotFoundError as missing:
        if missing.name != module_name.partition(".")[0] and _is_within(missing.name, module_name):
            suggestion = _suggestion(path, [*SHORT_NAMES, *SHORT_VECTORIZERS])
            raise _refused(f"There is no module {module_name}.", suggestion) from missing
        raise missing_dependency(missing, f"pip install {missing.name}", path) from missing


def _is_within(missing: str | None, module_name: str) -> bool:
    return missing is not None and (module_name + ".").startswith(missing + ".")


def _is_estimator(found: Any) -> bool:
    if not isinstance(found, type) or found.__module__.partition(".")[0] not in PACKAGES:
        return False
    return all(callable(getattr(found, method, None)) for method in ("fit", "get_params"))


def _check_role(role: str, name: str, found: type[Any]) -> None:
    methods = {CLASSIFIER: ("predict",), REGRESSOR: ("predict",), VECTORIZER: ("fit_transform", "transform")}
    fits = all(callable(getattr(found, method, None)) for method in methods[role])
    if fits and role != VECTORIZER:
        fits = _is_a(role, found)
    if not fits:
        raise _refused(f"{name} is no {role}.", _ROLE_ADVICE[role])


_ROLE_ADVICE = {
    CLASSIFIER: "This scheme's answers are labels; name a classifier such as LogisticRegression.",
    REGRESSOR: "This scheme's answers are numbers; name a regressor such as Ridge.",
    VECTORIZER: "Name a vectorizer such as TfidfVectorizer.",
}


def _is_a(role: str, found: type[Any]) -> bool:
    from sklearn.base import ClassifierMixin, RegressorMixin

    mixin = ClassifierMixin if role == CLASSIFIER else RegressorMixin
    return issubclass(found, mixin) or getattr(found, "_estimator_type", None) == role


def _arguments(role: str, found: type[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    known = argument_names(found)
    open_ended = any(parameter.kind is parameter.VAR_KEYWORD for parameter in _parameters(found))
    for name in kwargs:
        if name not in known and not open_ended:
            message = (
                f"{_kwargs_name(role)}: {found.__name__} does not take {name}; it takes {', '.join(known)}."
            )
            raise _refused(message, _advice(role, name, known))
    if role == VECTORIZER and kwargs.get("input", "content") != "content":
        raise _refused(
            "vectorizer_kwargs: input must be content: texts are never read as file names.", "Leave it out."
        )
    # JSON and YAML know no tuples, and scikit-learn insists on one here.
    return {k: tuple(v) if k == "ngram_range" and isinstance(v, list) else v for k, v in kwargs.items()}


def _parameters(found: type[Any]) -> list[inspect.Parameter]:
    return [p for p in inspect.signature(found.__init__).parameters.values() if p.name != "self"]


def _kwargs_name(role: str) -> str:
    return "vectorizer_kwargs" if role == VECTORIZER else "classifier_kwargs"


def _classes_in(module: Any) -> list[str]:
    return [name for name in dir(module) if _is_estimator(getattr(module, name, None))]


def _suggestion(name: str, known: Sequence[str]) -> str:
    last = name.rpartition(".")[2]
    close = difflib.get_close_matches(last, known, n=3) or [
        each for each in known if each.lower() == last.lower()
    ]
    return f"Did you mean {' or '.join(close)}?" if close else _ESTIMATOR_ADVICE


def _advice(role: str, name: str, known: Sequence[str]) -> str:
    """What to do about an argument that an estimator does not take."""
    close = _suggestion(name, known)
    return f"Correct {_kwargs_name(role)}." if close == _ESTIMATOR_ADVICE else close


def _refused(message: str, next_step: str) -> TrainerError:
    return TrainerError("validation_failed", message, next_step)
