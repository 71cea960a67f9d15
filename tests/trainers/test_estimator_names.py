import shlex
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from trainer_samples import Fitted, opinions, rows_of

from potato_ray.trainers import estimators
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.params import check_params
from potato_ray.trainers.sklearn_text import SklearnText

Train = Callable[..., Fitted]

FORBIDDEN = ["os.system", "subprocess.Popen", "builtins.eval", "posix.system", "pickle.loads", "joblib.load"]


@pytest.mark.parametrize("path", FORBIDDEN)
@pytest.mark.parametrize("param", ["classifier", "vectorizer"])
def test_a_plain_callable_is_refused_at_once(path: str, param: str) -> None:
    problems = check_params(SklearnText, {param: path})
    assert len(problems) == 1
    assert f"{path} does not" in problems[0].message


@pytest.mark.parametrize(
    "path",
    [
        "sklearn.utils.shuffle",
        "sklearn.datasets.fetch_openml",
        "sklearn.metrics.f1_score",
        "sklearn.linear_model",
        "lightgbm.train",
    ],
)
def test_a_function_or_module_of_an_allowed_package_is_refused_at_once(path: str) -> None:
    (problem,) = check_params(SklearnText, {"classifier": path})
    assert f"must name a class, whose name begins with a capital letter; {path} does not" in problem.message


@pytest.mark.parametrize(
    "path", ["sklearn.svm.SVC", "sklearn.linear_model.RidgeClassifierCV", "xgboost.XGBClassifier"]
)
def test_a_class_of_an_allowed_package_passes(path: str) -> None:
    assert check_params(SklearnText, {"classifier": path}) == []


@pytest.mark.parametrize("path", [*FORBIDDEN, "sklearn.os.system", "sklearn.utils._testing.subprocess.Popen"])
def test_the_worker_refuses_it_too_and_runs_nothing(
    path: str, train: Train, monkeypatch: pytest.MonkeyPatch
) -> None:
    def caught(*_args: Any, **_kwargs: Any) -> None:
        raise AssertionError("it was run")

    monkeypatch.setattr("os.system", caught)
    monkeypatch.setattr(subprocess, "Popen", caught)
    with pytest.raises(TrainerError) as refusal:
        train("nominal", rows_of(*opinions(20)), classifier=path, classifier_kwargs={"command": "true"})
    assert refusal.value.code == "validation_failed"


@pytest.mark.parametrize(
    "path",
    [
        "sklearn.base.clone",
        "sklearn.datasets.load_iris",
        "sklearn.utils.Bunch",
        "sklearn.base.ClassifierMixin",
    ],
)
def test_what_is_no_estimator_is_refused(path: str) -> None:
    with pytest.raises(TrainerError, match="is no estimator"):
        estimators.resolve(path)


def test_every_short_name_stands_for_a_class_of_its_name() -> None:
    for name in [*estimators.SHORT_NAMES, *estimators.SHORT_VECTORIZERS]:
        assert estimators.resolve(name).__name__ == name


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("sklearn.linear_model.LogisticRegresion", "LogisticRegression"),
        ("sklearn.lineal_model.LogisticRegression", "LogisticRegression"),
    ],
)
def test_a_misspelt_class_is_an_error_with_a_suggestion(path: str, words: str) -> None:
    with pytest.raises(TrainerError, match="There is no") as refusal:
        estimators.resolve(path)
    assert refusal.value.code == "validation_failed"
    assert words in refusal.value.next_step


def test_a_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise ModuleNotFoundError(f"No module named {name!r}", name=name)

    monkeypatch.setattr(estimators.importlib, "import_module", missing)
    with pytest.raises(TrainerError, match=r"xgboost\.XGBClassifier") as refusal:
        estimators.resolve("xgboost.XGBClassifier")
    assert refusal.value.code == "missing_dependency"
    assert refusal.value.next_step == f"{shlex.quote(sys.executable)} -m pip install xgboost"


@pytest.mark.parametrize(
    ("kind", "params", "words"),
    [
        ("nominal", {"classifier": "Ridge"}, "Ridge is no classifier"),
        ("continuous", {"classifier": "LinearSVC"}, "LinearSVC is no regressor"),
        ("nominal", {"vectorizer": "sklearn.svm.LinearSVC"}, "is no vectorizer"),
        ("nominal", {"classifier_kwargs": {"Cc": 1}}, "LogisticRegression does not take Cc; it takes"),
        ("nominal", {"classifier_kwargs": {"C": "os.system"}}, "'C' parameter of LogisticRegression"),
        ("nominal", {"vectorizer_kwargs": {"tokenizer": "os.system"}}, "'tokenizer' parameter"),
        ("nominal", {"vectorizer_kwargs": {"input": "filename"}}, "never read as file names"),
        ("nominal", {"vectorizer": "sklearn.preprocessing.StandardScaler"}, "it takes numbers, not texts"),
        ("nominal", {"classifier": "sklearn.naive_bayes.GaussianNB"}, "does not take the sparse features"),
        ("nominal", {"classifier": "sklearn.multiclass.OneVsRestClassifier"}, "could not be made"),
    ],
)
def test_what_does_not_fit_is_refused_and_never_replaced(
    kind: str, params: dict[str, Any], words: str, train: Train
) -> None:
    texts, labels = opinions(20)
    targets: list[Any] = [float(label == "good") for label in labels] if kind == "continuous" else labels
    with pytest.raises(TrainerError, match=words) as refusal:
        train(kind, rows_of(texts, targets), **params)
    assert refusal.value.code == "validation_failed"
    assert refusal.value.next_step


@pytest.mark.parametrize(
    "path", ["LinearSVC", "MultinomialNB", "SVC", "KNeighborsClassifier", "NearestCentroid"]
)
def test_other_estimators_are_used_as_named(path: str, train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(80)), classifier=path)
    texts, labels = opinions(30, seed=1)
    right = sum(p.payload["label"] == label for p, label in zip(fitted.of(texts), labels, strict=True))
    assert fitted.json("model_card.json")["classifier"] == path
    assert right >= 24


@pytest.mark.parametrize(
    ("given", "many", "solver", "dual"),
    [
        ({}, False, "liblinear", True),
        ({}, True, "newton-cg", None),
        ({"C": 1.0}, False, "liblinear", True),
        ({"solver": "saga"}, False, "saga", None),
        ({"l1_ratio": 1.0}, False, "liblinear", None),
    ],
)
def test_the_default_solver_fits_the_labels_and_makes_way_for_arguments_that_want_another(
    given: dict[str, Any], many: bool, solver: str, dual: bool | None
) -> None:
    name, arguments = estimators.default_estimator(estimators.CLASSIFIER, given, many)
    assert (name, arguments.get("solver"), arguments.get("dual")) == ("LogisticRegression", solver, dual)
    assert given.items() <= arguments.items()


@pytest.mark.parametrize("given", [{"solver": "lbfgs"}, {"l1_ratio": 1.0}, {"class_weight": "balanced"}])
def test_arguments_that_choose_another_way_of_fitting_work(given: dict[str, Any], train: Train) -> None:
    fitted = train("nominal", rows_of(*opinions(60)), classifier_kwargs=given)
    texts, labels = opinions(30, seed=1)
    assert sum(p.payload["label"] == label for p, label in zip(fitted.of(texts), labels, strict=True)) >= 20


def test_arguments_reach_the_estimator_and_lists_become_the_tuples_it_wants(train: Train) -> None:
    fitted = train(
        "nominal",
        rows_of(*opinions(30)),
        classifier_kwargs={"C": 0.25},
        vectorizer_kwargs={"ngram_range": [1, 3], "min_df": 2},
    )
    model = fitted.trainer._fitted()
    assert model.estimators[0].C == 0.25
    assert model.features.vectorizer.ngram_range == (1, 3)
