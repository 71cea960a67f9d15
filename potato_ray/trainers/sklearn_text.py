"""sklearn-text: a scikit-learn estimator on text features; runs on the CPU in well under a second."""

from __future__ import annotations

from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any, Callable, Iterable, Iterator, Mapping

from potato_ray.trainers import (
    calibration,
    estimators,
    heads,
    kinds,
    library_warnings,
    model_files,
    sentence_embeddings,
)
from potato_ray.trainers.base import (
    MIN_INSTANCES,
    FitContext,
    Licence,
    Param,
    Prediction,
    Reporter,
    Requirement,
    Row,
    Trainer,
    TrainerError,
)
from potato_ray.trainers.features import DEFAULT_KWARGS, LetterGroups, TextFeatures
from potato_ray.trainers.installing import missing_dependency
from potato_ray.trainers.sentence_embeddings import SentenceEmbeddings
from potato_ray.trainers.text_model import TextModel
from potato_ray.trainers.train_rows import OddRows, TrainRows, read_train_rows, texts_of
from potato_ray.trainers.value_range import value_range

BATCH_ROWS = 8192
"""The letter groups of a word are counted once in each batch."""


class SklearnText(Trainer):
    """Words and letter groups with a linear model by default; any scikit-learn estimator by its path."""

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
        Param("classifier_kwargs", "mapping", {}, 'Arguments of the estimator, such as {"C": 2.0}.'),
        Param(
            "vectorizer",
            "dotted_path",
            estimators.DEFAULT_VECTORIZER,
            "What turns texts into features, by dotted path or short name; sentence-transformers: the "
            "embeddings of a pretrained model.",
            choices=(*estimators.SHORT_VECTORIZERS, sentence_embeddings.SHORT_NAME),
            packages=estimators.PACKAGES,
            advanced=True,
        ),
        Param(
            "vectorizer_kwargs",
            "mapping",
            {},
            'Arguments of the vectorizer, such as {"min_df": 2}.',
            advanced=True,
        ),
        Param(
            "letter_groups",
            "bool",
            True,
            "With the default vectorizer, also look at the groups of four letters inside words.",
            advanced=True,
        ),
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
        "scipy.special",
        "sklearn.feature_extraction.text",
        "sklearn.isotonic",
        "sklearn.linear_model",
        "sklearn.model_selection",
        "potato_ray.trainers.skops_alone",
    )

    def __init__(self) -> None:
        self._model: TextModel | None = None
        self._reporter: Reporter | None = None

    def fit(self, context: FitContext) -> dict[str, float]:
        """Fit, calibrate and save; see `Trainer.fit`. Nothing is chosen on val."""
        self._reporter = context.reporter
        with library_warnings.told_once(context.reporter):
            return self._fit(context)

    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        """Predict in batches; a row without text gets what the model says of no words."""
        model = self._fitted()
        waiting = iter(rows)
        embedded = isinstance(model.features.vectorizer, SentenceEmbeddings)
        n_rows = sentence_embeddings.ROWS_AT_ONCE if embedded else BATCH_ROWS
        odd = OddRows(model.features.paired)
        while True:
            window = list(islice(waiting, n_rows))
            if not window:
                return odd.tell(self._reporter)
            batch = odd.left_out(window)
            texts = [texts_of(row, model.features.paired) for row in batch]
            answers = model.answers(texts) if texts else ()
            for row, (payload, confidence) in zip(batch, answers):
                yield Prediction(str(row["instance_id"]), payload, confidence)

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> SklearnText:
        """Load a model; `device` is for embeddings. Raises TrainerError; see model_files for what is safe."""
        try:
            model_files.check_versions(model_files.read_card(artifacts))
            state = model_files.load_model(artifacts)
        except ImportError as missing:
            raise missing_dependency(missing, cls.install_hint) from missing
        trainer = cls()
        try:
            trainer._model = TextModel.from_state(state)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as failure:
            raise TrainerError(
                "validation_failed", f"{model_files.MODEL} is no model of {cls.name}.", "Train again."
            ) from failure
        vectorizer = trainer._fitted().features.vectorizer
        if isinstance(vectorizer, SentenceEmbeddings):
            vectorizer.choose_device = lambda: device
        return trainer

    @classmethod
    def also_requires(cls, params: Mapping[str, Any]) -> tuple[Requirement, ...]:
        return sentence_embeddings.REQUIRES if _embeds(params) else ()

    @classmethod
    def problem_with(cls, params: Mapping[str, Any]) -> str:
        kwargs = params.get("vectorizer_kwargs") or {}
        if _embeds(params):
            return sentence_embeddings.problem_with_kwargs(kwargs)
        if "model_name" in kwargs:
            name = sentence_embeddings.SHORT_NAME
            return f"vectorizer_kwargs: model_name is for vectorizer {name}; name that as the vectorizer, too"
        return ""

    def label_order(self) -> list[str]:
        return list(self._fitted().labels)

    def _fitted(self) -> TextModel:
        if self._model is None:
            raise TrainerError("fit_failed", "There is no model yet.", "Call fit or load first.")
        return self._model

    def _fit(self, context: FitContext) -> dict[str, float]:
        reporter, params, kind = context.reporter, context.params, context.scheme.kind
        features = _features(context)  # first: what cannot be had is refused before all else
        rows = read_train_rows(context)
        embeds_alone = _fit_to_rows(features, rows)
        make = _maker(params, kind, len(rows.labels), context.seed, embeds_alone)
        name = type(make()).__name__
        reporter.status("fitting", f"reading {len(rows.texts)} texts")
        matrix = features.fit_transform(rows.texts)
        if isinstance(features.vectorizer, SentenceEmbeddings):
            features.vectorizer.reporter = None  # the worker tells of the progress of predictions
        reporter.status("fitting", f"fitting {name}")
        fitted = _fit_heads(make, kind, matrix, rows)
        decided = calibration.decide(context, make, matrix, rows.targets, rows.labels, "texts")
        bounds = _bounds(context.scheme.options, rows.targets) if kind == kinds.CONTINUOUS else (0.0, 1.0)
        self._model = TextModel(kind, rows.labels, features, fitted, decided.curves, bounds)
        self._save(context, decided, name, len(rows.texts))
        sizes = {"n_train": float(len(rows.texts)), "n_features": float(matrix.shape[1])}
        return {**sizes, **self._model.train_score(matrix, rows.targets)}

    def _embeddings_on_card(self) -> dict[str, Any]:
        vectorizer = self._fitted().features.vectorizer
        return {"embeddings": vectorizer.on_card()} if isinstance(vectorizer, SentenceEmbeddings) else {}

    def _save(self, context: FitContext, decided: calibration.Calibration, name: str, n_train: int) -> None:
        context.reporter.status("saving", "saving the model")
        context.artifacts.mkdir(parents=True, exist_ok=True)
        model_files.save_model(context.artifacts, self._fitted().state())
        model_files.write_json(context.artifacts / model_files.CALIBRATION, decided.as_json())
        card = {
            "trainer": self.name,
            "scheme": context.scheme.name,
            "annotation_type": context.scheme.annotation_type,
            "kind": context.scheme.kind,
            "classifier": name,
            "vectorizer": type(self._fitted().features.vectorizer).__name__,
            **self._embeddings_on_card(),
            "calibration": decided.as_json(),
            "label_order": self.label_order(),
            "n_train": n_train,
            "bundle_digest": context.bundle_digest,
            "seed": context.seed,
            "params": dict(context.params),
            "versions": model_files.versions(),
            "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        model_files.write_json(context.artifacts / model_files.CARD, card)


def _embeds(params: Mapping[str, Any]) -> bool:
    return params.get("vectorizer") == sentence_embeddings.SHORT_NAME


def _bounds(options: Mapping[str, Any], targets: Any) -> tuple[float, float]:
    """The least and greatest value that a prediction may take."""
    return value_range(options, float(targets.min()), float(targets.max()))


def _features(context: FitContext) -> TextFeatures:
    """What turns texts into features, before any row was read; see `_fit_to_rows`. Raises TrainerError."""
    params, seed = context.params, context.seed
    name, kwargs = params["vectorizer"], params["vectorizer_kwargs"]
    letters = LetterGroups() if params["letter_groups"] else None
    if _embeds(params):
        embeddings = _embeddings(context, kwargs)
        words = estimators.build(
            estimators.VECTORIZER, estimators.DEFAULT_VECTORIZER, dict(DEFAULT_KWARGS), seed
        )
        return TextFeatures(embeddings, None, False, TextFeatures(words, letters, paired=False))
    is_default = estimators.full_path(name) == estimators.DEFAULT_VECTORIZER
    if is_default:
        kwargs = {**DEFAULT_KWARGS, **kwargs}
    vectorizer = estimators.build(estimators.VECTORIZER, name, kwargs, seed)
    return TextFeatures(vectorizer, letters if is_default else None, paired=False)


def _fit_to_rows(features: TextFeatures, rows: TrainRows) -> bool:
    """What depends on the rows; whether the features are embeddings and nothing else."""
    features.paired = rows.paired
    embeddings = features.vectorizer
    if isinstance(embeddings, SentenceEmbeddings) and not embeddings.wants_words(len(rows.texts)):
        features.words = None
    return isinstance(embeddings, SentenceEmbeddings) and features.words is None


def _embeddings(context: FitContext, kwargs: Mapping[str, Any]) -> SentenceEmbeddings:
    embeddings = SentenceEmbeddings.of(kwargs)
    embeddings.choose_device = context.late_device
    embeddings.reporter = context.reporter
    embeddings.find(lambda line: context.reporter.status("fitting", line))
    return embeddings


def _maker(
    params: Mapping[str, Any], kind: str, n_labels: int, seed: int, embeds_alone: bool
) -> Callable[[], Any]:
    """A function that makes unfitted estimators; called once here, so that wrong names fail at once."""
    role = estimators.REGRESSOR if kind == kinds.CONTINUOUS else estimators.CLASSIFIER
    name, kwargs = params["classifier"], params["classifier_kwargs"]
    if name is None:
        many = kind == kinds.NOMINAL and n_labels > 2
        name, kwargs = estimators.default_estimator(role, kwargs, many, embeds_alone)
    estimators.build(role, name, kwargs, seed)
    return lambda: estimators.build(role, name, kwargs, seed)


def _fit_heads(make: Callable[[], Any], kind: str, matrix: Any, rows: TrainRows) -> list[Any]:
    try:
        return heads.fit_heads(make, kind, matrix, rows.targets, len(rows.labels))
    except (TypeError, ValueError) as failure:
        raise _fit_error(type(make()).__name__, failure) from failure


def _fit_error(name: str, failure: Exception) -> TrainerError:
    if type(failure).__name__ == "InvalidParameterError":
        return TrainerError("validation_failed", str(failure), "Correct classifier_kwargs.")
    if "dense" in str(failure).lower():
        return TrainerError(
            "validation_failed",
            f"{name} does not take the sparse features that texts give: {failure}",
            "Choose another classifier, such as LogisticRegression or RandomForestClassifier, or embeddings "
            'alone: vectorizer sentence-transformers with vectorizer_kwargs {"words": false}.',
        )
    if "negative values" in str(failure).lower():
        return TrainerError(
            "validation_failed",
            f"{name} takes no features below zero, as embeddings are, and the differences of pairs.",
            "Choose another classifier, such as LogisticRegression.",
        )
    # scikit-learn raises these for data and arguments that do not go together.
    code = "validation_failed" if isinstance(failure, (TypeError, ValueError)) else "fit_failed"
    remedy = "Choose another classifier or other classifier_kwargs."
    return TrainerError(code, f"{name} could not be fitted: {failure}", remedy)
