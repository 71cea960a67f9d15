"""setfit: a sentence model that learns from few labels which texts are alike, with a logistic regression."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping

from potato_ray.trainers import (
    contrast_pairs,
    kinds,
    library_warnings,
    memory_estimate,
    model_files,
    sentence_body,
    setfit_training,
)
from potato_ray.trainers.base import (
    MIN_INSTANCES,
    FitContext,
    Licence,
    Param,
    Prediction,
    Requirement,
    Row,
    Trainer,
    TrainerError,
)
from potato_ray.trainers.contrast_pairs import Pairs, draw_pairs
from potato_ray.trainers.installing import missing_dependency
from potato_ray.trainers.pretrained import Source, locate
from potato_ray.trainers.setfit_model import FewShotModel
from potato_ray.trainers.text_objective import BALANCED, NONE
from potato_ray.trainers.token_data import cut_notice
from potato_ray.trainers.train_rows import TrainRows, read_train_rows, texts_of

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
WINDOW_ROWS = 4096
"""So many rows are predicted at once, batches of like length among them."""
_PACKAGES = ("torch", "transformers", "sentence-transformers", "setfit")


class SetFitText(Trainer):
    """Labels, sets of labels and grades from as few as eight examples of each."""

    name = "setfit"
    description = "A sentence model fitted to a few labelled texts (SetFit); best below a few hundred labels."
    kinds = (kinds.NOMINAL, kinds.ORDINAL, kinds.MULTILABEL)
    annotation_types = (
        "radio",
        "select",
        "triage",
        "likert",
        "confidence",
        "multiselect",
        "hierarchical_multiselect",
    )
    params = (
        Param(
            "model_name",
            "str",
            DEFAULT_MODEL,
            "The sentence model: its id on the Hugging Face Hub, or its folder.",
        ),
        Param(
            "max_steps",
            "int",
            100,
            "Batches of pairs that the model learns from, at most; it bounds the time.",
            minimum=1,
            maximum=100_000,
        ),
        Param(
            "epochs",
            "int",
            10,
            "How often each pair of train texts is seen, at most: with few texts there are few pairs.",
            minimum=1,
            maximum=1000,
        ),
        Param("batch_size", "int", 16, "Pairs in a batch.", minimum=1, maximum=4096),
        Param(
            "body_learning_rate",
            "float",
            5e-5,
            "The highest rate at which the sentence model learns.",
            minimum=1e-8,
            maximum=1.0,
        ),
        Param(
            "sampling",
            "choice",
            contrast_pairs.OVERSAMPLING,
            "Pairs of alike and of unlike answers: as many of both, the scarcer ones again (oversampling), "
            "the others left out (undersampling), or as they come (unique).",
            choices=contrast_pairs.SAMPLING,
            advanced=True,
        ),
        Param(
            "max_length",
            "int",
            None,
            "Longer texts are cut after so many tokens. Left out: the length that the model says.",
            minimum=8,
            maximum=131072,
            optional=True,
            advanced=True,
        ),
        Param(
            "normalize",
            "bool",
            False,
            "Bring every embedding to length 1, where the model does not do so itself.",
            advanced=True,
        ),
        Param(
            "head",
            "mapping",
            {},
            "How the logistic regression on the embeddings learns.",
            advanced=True,
            members=(
                Param(
                    "C", "float", 1.0, "The greater, the closer to the train rows.", minimum=1e-6, maximum=1e6
                ),
                Param(
                    "class_weight",
                    "choice",
                    NONE,
                    "balanced: rare labels weigh as much as frequent ones.",
                    choices=(NONE, BALANCED),
                ),
                Param(
                    "max_iter", "int", 1000, "Rounds of the solver, at most.", minimum=1, maximum=1_000_000
                ),
            ),
        ),
        MIN_INSTANCES,
    )
    requires = (
        Requirement("numpy", "numpy"),
        Requirement("torch", "torch"),
        Requirement("transformers", "transformers"),
        Requirement("sentence_transformers", "sentence-transformers"),
        Requirement("setfit", "setfit"),
        Requirement("sklearn", "scikit-learn"),
        Requirement("skops", "skops"),
    )
    install_hint = "pip install setfit skops"
    licence = Licence("Apache-2.0", "https://github.com/huggingface/setfit/blob/main/LICENSE")

    def __init__(self) -> None:
        self._model: FewShotModel | None = None

    def fit(self, context: FitContext) -> dict[str, float]:
        """Train the body on pairs and the head on its embeddings, and save; nothing is chosen on val."""
        rows = _checked(read_train_rows(context))
        name = str(context.params["model_name"])
        context.reporter.status("fitting", f"looking for {name}")
        source = locate(name, tell=lambda line: context.reporter.status("fitting", line))
        try:
            self._model, metrics = _fit(context, source, rows)
        except ImportError as missing:
            raise missing_dependency(missing, self.install_hint) from missing
        memory_estimate.tell_peak(context.reporter, context.device)
        return metrics

    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        """Predict WINDOW_ROWS at a time; a row without text gets what the model says of no words."""
        model, waiting = self._fitted(), iter(rows)
        while True:
            window = list(islice(waiting, WINDOW_ROWS))
            if not window:
                return
            features = model.embed([texts_of(row, False)[0] for row in window])
            for row, (payload, confidence) in zip(window, model.answers_of(features)):
                yield Prediction(str(row["instance_id"]), payload, confidence)

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> SetFitText:
        """Load body and head; `device` is where it predicts. Nothing is unpickled. Raises TrainerError."""
        trainer = cls()
        try:
            card = model_files.read_card(artifacts)
            model_files.check_versions(card)
            trainer._model = FewShotModel.load(artifacts, device)
        except ImportError as missing:
            raise missing_dependency(missing, cls.install_hint) from missing
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as failure:
            raise TrainerError(
                "validation_failed", f"{model_files.MODEL} is no model of {cls.name}.", "Train again."
            ) from failure
        if trainer.label_order() != card.get("label_order"):
            raise TrainerError(
                "validation_failed",
                f"{model_files.CARD} and {model_files.MODEL} name other labels, or in another order.",
                "Do not use these files; copy the run's artifacts again, or train again.",
            )
        return trainer

    def label_order(self) -> list[str]:
        return list(self._fitted().labels)

    def _fitted(self) -> FewShotModel:
        if self._model is None:
            raise TrainerError("fit_failed", "There is no model yet.", "Call fit or load first.")
        return self._model


def _checked(rows: TrainRows) -> TrainRows:
    if rows.paired:
        raise TrainerError(
            "validation_failed",
            "The items are pairs of texts, and setfit compares single texts.",
            "Choose hf-text-classification or sklearn-text, which read both texts.",
        )
    return rows


def _fit(context: FitContext, source: Source, rows: TrainRows) -> tuple[FewShotModel, dict[str, float]]:
    texts = [text for text, *_ in rows.texts]
    pairs, plan = _plan(context, rows)
    model = _untrained(context, source, rows)
    context.reporter.status("fitting", f"training {source.short} on pairs of texts")
    context.reporter.log(
        f"{len(pairs)} pairs of {len(texts)} texts, {plan.steps} steps of {plan.batch_size} pairs."
    )
    with setfit_training.quiet():
        tuned = setfit_training.fine_tune(
            model.body, texts, rows.targets.tolist(), pairs, plan, context.artifacts, context.reporter
        )
    features = model.embed(texts)
    setfit_training.check_finite(features, plan)
    context.reporter.status("fitting", "fitting the logistic regression")
    with library_warnings.told_once(context.reporter):
        model.fit_head(lambda: _classifier(context.params["head"], context.seed), features, rows.targets)
    _save(context, model, source, plan, {"n_train": len(texts), "n_pairs": len(pairs)})
    return model, {
        "n_train": float(len(texts)),
        "n_pairs": float(len(pairs)),
        "train_loss": tuned.train_loss,
        "train_steps": float(plan.steps),
        "train_pairs_per_s": plan.steps * plan.batch_size / max(tuned.seconds, 1e-9),
        **model.train_score(features, rows.targets),
    }


def _plan(context: FitContext, rows: TrainRows) -> tuple[Pairs, setfit_training.Plan]:
    params = context.params
    batch_size, max_steps = int(params["batch_size"]), int(params["max_steps"])
    most = batch_size * max_steps
    pairs = draw_pairs(context.scheme.kind, rows.targets, str(params["sampling"]), most, context.seed)
    return pairs, setfit_training.Plan(
        steps=min(max_steps, int(params["epochs"]) * math.ceil(len(pairs) / batch_size)),
        batch_size=batch_size,
        learning_rate=float(params["body_learning_rate"]),
        seed=context.seed,
        device=context.device,
    )


def _untrained(context: FitContext, source: Source, rows: TrainRows) -> FewShotModel:
    params = context.params
    if not sentence_body.is_sentence_model(source.folder):
        context.reporter.log(
            f"{source.name} is no sentence model: the mean of its last layer is the embedding."
        )
    context.reporter.status("fitting", f"loading {source.short}")
    with setfit_training.quiet():
        body = sentence_body.load(
            source.folder, context.device, bool(params["normalize"]), params["max_length"]
        )
    _tell_length(context, source, body.model_body.max_seq_length)
    return FewShotModel(context.scheme.kind, rows.labels, body, int(params["batch_size"]))


def _tell_length(context: FitContext, source: Source, length: int | None) -> None:
    asked = context.params["max_length"]
    if asked is not None and length is not None and length < asked:
        context.reporter.log(cut_notice(source.name, asked, length), "warning")


def _classifier(head: Mapping[str, Any], seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    weight = None if head["class_weight"] == NONE else head["class_weight"]
    return LogisticRegression(C=head["C"], class_weight=weight, max_iter=head["max_iter"], random_state=seed)


def _save(
    context: FitContext,
    model: FewShotModel,
    source: Source,
    plan: setfit_training.Plan,
    sizes: Mapping[str, int],
) -> None:
    context.reporter.status("saving", "saving the model")
    context.artifacts.mkdir(parents=True, exist_ok=True)
    model.save(context.artifacts)
    scheme = context.scheme
    card = {
        "trainer": SetFitText.name,
        "scheme": scheme.name,
        "annotation_type": scheme.annotation_type,
        "kind": scheme.kind,
        "base_model": source.as_json(),
        "classifier": "LogisticRegression",
        "max_length": model.body.model_body.max_seq_length,
        "label_order": list(model.labels),
        **sizes,
        "steps": plan.steps,
        "bundle_digest": context.bundle_digest,
        "seed": context.seed,
        "params": dict(context.params),
        "versions": {**model_files.versions(), **{name: metadata.version(name) for name in _PACKAGES}},
        "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
    }
    model_files.write_json(context.artifacts / model_files.CARD, card)
