"""setfit: a sentence model that learns from few labels which texts are alike, with a logistic regression."""

from __future__ import annotations

import math
from datetime import datetime, timezone
from itertools import islice
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping

from potato_ray.trainers import contrast_pairs, heads, kinds, memory_estimate, model_files, setfit_body
from potato_ray.trainers.answers import Answering
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
from potato_ray.trainers.installing import into_this_python
from potato_ray.trainers.pretrained import Source, locate
from potato_ray.trainers.text_objective import BALANCED, NONE
from potato_ray.trainers.train_rows import TrainRows, read_train_rows, texts_of

DEFAULT_MODEL = "sentence-transformers/all-MiniLM-L6-v2"
WINDOW_ROWS = 4096
"""So many rows are predicted at once, batches of like length among them."""
FORMAT = 1
"""Of what is saved."""
BODY = "model"
"""The body's folder below the artifacts."""


class SetFitText(Answering, Trainer):
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
            200,
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
            2e-5,
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
            'Arguments of the logistic regression, such as {"C": 2.0}.',
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
        self.kind = kinds.NOMINAL
        self.labels: tuple[str, ...] = ()
        self.estimators: list[Any] = []
        self.curves = ()
        self.bounds = (0.0, 1.0)
        self._body: Any = None
        self._batch_size = 16

    def fit(self, context: FitContext) -> dict[str, float]:
        """Train the body on pairs and the head on its embeddings, and save; nothing is chosen on val."""
        rows = _checked(read_train_rows(context))
        texts = [text for text, *_ in rows.texts]
        context.reporter.status("fitting", f"looking for {context.params['model_name']}")
        source = locate(str(context.params["model_name"]), tell=_teller(context))
        try:
            with setfit_body.quiet():
                tuned, plan, n_pairs = self._fit_body(context, source, rows, texts)
                features = self._embed(texts)
        except ImportError as missing:
            raise _missing(missing) from missing
        self._fit_head(context, plan, features, rows)
        self._save(context, source, plan, n_pairs, len(texts))
        memory_estimate.tell_peak(context.reporter, context.device)
        return {
            "n_train": float(len(texts)),
            "n_pairs": float(n_pairs),
            "train_loss": tuned.train_loss,
            "train_steps": float(plan.steps),
            "train_pairs_per_s": plan.steps * plan.batch_size / max(tuned.seconds, 1e-9),
            **self._train_score(features, rows),
        }

    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        """Predict WINDOW_ROWS at a time; a row without text gets what the model says of no words."""
        if self._body is None:
            raise TrainerError("fit_failed", "There is no model yet.", "Call fit or load first.")
        waiting = iter(rows)
        while True:
            window = list(islice(waiting, WINDOW_ROWS))
            if not window:
                return
            with setfit_body.quiet():
                features = self._embed([texts_of(row, False)[0] for row in window])
            for row, (payload, confidence) in zip(window, self.answers_of(features)):
                yield Prediction(str(row["instance_id"]), payload, confidence)

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> SetFitText:
        """Load body and head; `device` is where it predicts. Nothing is unpickled. Raises TrainerError."""
        trainer = cls()
        try:
            card = model_files.read_card(artifacts)
            model_files.check_versions(card)
            trainer._restore(artifacts, model_files.load_model(artifacts), device)
        except ImportError as missing:
            raise _missing(missing) from missing
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
        return list(self.labels)

    def _fit_body(
        self, context: FitContext, source: Source, rows: TrainRows, texts: list[str]
    ) -> tuple[setfit_body.Tuned, setfit_body.Plan, int]:
        params, reporter = context.params, context.reporter
        kind = context.scheme.kind
        batch_size, max_steps = int(params["batch_size"]), int(params["max_steps"])
        pairs = contrast_pairs.draw_pairs(
            kind, rows.targets, str(params["sampling"]), batch_size * max_steps, context.seed
        )
        plan = setfit_body.Plan(
            steps=min(max_steps, int(params["epochs"]) * math.ceil(len(pairs) / batch_size)),
            batch_size=batch_size,
            learning_rate=float(params["body_learning_rate"]),
            seed=context.seed,
            device=context.device,
        )
        if not setfit_body.is_sentence_model(source.folder):
            reporter.log(f"{source.name} is no sentence model: the mean of its last layer is the embedding.")
        self._body = setfit_body.load(
            source.folder, context.device, bool(params["normalize"]), params["max_length"]
        )
        self._batch_size = batch_size
        reporter.status("fitting", f"training {source.name} on pairs of texts")
        reporter.log(f"{len(pairs)} pairs of {len(texts)} texts, {plan.steps} steps of {batch_size} pairs.")
        tuned = setfit_body.fine_tune(
            self._body, texts, rows.targets.tolist(), pairs, plan, context.artifacts, reporter
        )
        return tuned, plan, len(pairs)

    def _embed(self, texts: list[str]) -> Any:
        return setfit_body.embeddings(self._body, texts, self._batch_size * 2)

    def _fit_head(self, context: FitContext, plan: setfit_body.Plan, features: Any, rows: TrainRows) -> None:
        import numpy as np

        if not np.isfinite(features).all():
            raise setfit_body.diverged(math.nan, plan.steps, plan.learning_rate)
        context.reporter.status("fitting", "fitting the logistic regression")
        self.kind, self.labels = context.scheme.kind, rows.labels
        self.estimators = heads.fit_heads(
            lambda: _classifier(context.params["head"], context.seed),
            self.kind,
            features,
            rows.targets,
            len(rows.labels),
        )

    def _train_score(self, features: Any, rows: TrainRows) -> dict[str, float]:
        """How well the model fits its own train rows; says little about other texts."""
        payloads = [payload for payload, _ in self.answers_of(features)]
        if self.kind == kinds.MULTILABEL:
            wanted = [sorted(label for label, on in zip(self.labels, row) if on) for row in rows.targets]
            right = [payload["labels"] == labels for payload, labels in zip(payloads, wanted)]
            return {"train_subset_accuracy": sum(right) / len(right)}
        right = [payload["label"] == self.labels[code] for payload, code in zip(payloads, rows.targets)]
        return {"train_accuracy": sum(right) / len(right)}

    def _restore(self, artifacts: Path, state: Mapping[str, Any], device: str) -> None:
        if state["format"] != FORMAT:
            raise TrainerError(
                "validation_failed",
                f"The model is of format {state['format']}, and this version of potato_ray reads {FORMAT}.",
                "Train again, or use the version that saved it.",
            )
        self.kind, self.labels = str(state["kind"]), tuple(map(str, state["labels"]))
        self.estimators, self._batch_size = list(state["estimators"]), int(state["batch_size"])
        with setfit_body.quiet():
            self._body = setfit_body.load(artifacts / BODY, device, bool(state["normalize"]))

    def _save(
        self, context: FitContext, source: Source, plan: setfit_body.Plan, n_pairs: int, n_train: int
    ) -> None:
        context.reporter.status("saving", "saving the model")
        artifacts, scheme = context.artifacts, context.scheme
        artifacts.mkdir(parents=True, exist_ok=True)
        with setfit_body.quiet():
            setfit_body.save(self._body, artifacts / BODY)
        state = {
            "format": FORMAT,
            "kind": self.kind,
            "labels": list(self.labels),
            "estimators": self.estimators,
            "normalize": bool(context.params["normalize"]),
            "batch_size": self._batch_size,
        }
        model_files.save_model(artifacts, state)
        card = {
            "trainer": self.name,
            "scheme": scheme.name,
            "annotation_type": scheme.annotation_type,
            "kind": scheme.kind,
            "base_model": source.as_json(),
            "classifier": "LogisticRegression",
            "max_length": self._body.model_body.max_seq_length,
            "label_order": self.label_order(),
            "n_train": n_train,
            "n_pairs": n_pairs,
            "steps": plan.steps,
            "bundle_digest": context.bundle_digest,
            "seed": context.seed,
            "params": dict(context.params),
            "versions": _versions(),
            "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        model_files.write_json(artifacts / model_files.CARD, card)


def _checked(rows: TrainRows) -> TrainRows:
    if rows.paired:
        raise TrainerError(
            "validation_failed",
            "The items are pairs of texts, and setfit compares single texts.",
            "Choose hf-text-classification or sklearn-text, which read both texts.",
        )
    return rows


def _classifier(head: Mapping[str, Any], seed: int) -> Any:
    from sklearn.linear_model import LogisticRegression

    weight = None if head["class_weight"] == NONE else head["class_weight"]
    return LogisticRegression(C=head["C"], class_weight=weight, max_iter=head["max_iter"], random_state=seed)


def _teller(context: FitContext) -> Any:
    return lambda line: context.reporter.status("fitting", line)


def _missing(missing: ImportError) -> TrainerError:
    return TrainerError("missing_dependency", str(missing), into_this_python(SetFitText.install_hint))


def _versions() -> dict[str, str]:
    import sentence_transformers
    import setfit
    import torch
    import transformers

    found = {
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "sentence-transformers": sentence_transformers.__version__,
        "setfit": setfit.__version__,
    }
    return {**model_files.versions(), **found}
