"""One fit of hf-text-classification: from rows to a model that is saved with its card."""

from __future__ import annotations

import math
import platform
from datetime import datetime, timezone
from importlib import metadata
from typing import Any

from potato_ray.trainers import adapters, epoch_choice, fine_tuning, kinds, memory_estimate, model_files
from potato_ray.trainers.base import FitContext
from potato_ray.trainers.features import Texts
from potato_ray.trainers.hf_model import AUTO, FP32, TextClassifier, load_base, load_tokenizer, precision
from potato_ray.trainers.model_folder import digest
from potato_ray.trainers.pretrained import Source
from potato_ray.trainers.quiet import quiet
from potato_ray.trainers.temperature import Temperature, choose
from potato_ray.trainers.text_objective import Objective
from potato_ray.trainers.token_data import TokenItems, cut_notice, encode, most_tokens, usual_length
from potato_ray.trainers.train_rows import OddRows, TrainRows, texts_of
from potato_ray.trainers.value_range import value_range

FULL_RATE, LORA_RATE = 5e-5, 5e-4
MODEL, ADAPTER = "model", "adapter"
"""Folders below the artifacts: the whole model, or what LoRA has trained."""
_PACKAGES = ("torch", "transformers", "peft", "accelerate", "bitsandbytes")


class HfFit:
    """`run` gives the classifier and the training metrics. Raises TrainerError."""

    def __init__(self, context: FitContext, source: Source, rows: TrainRows) -> None:
        self.context = context
        self.params = context.params
        self.reporter = context.reporter
        self.source = source
        self.rows = rows
        self.lora = adapters.Lora.of(context.params["lora"])
        self.objective = _objective(context, rows)

    def run(self) -> tuple[TextClassifier, dict[str, float]]:
        import transformers

        transformers.set_seed(self.context.seed)
        classifier = self._classifier()
        train = TokenItems(
            encode(classifier.tokenizer, self.rows.texts, classifier.max_length),
            self.objective.targets(self.rows.targets),
        )
        texts, coded = self._val_rows()
        plan = self._plan(len(train))
        self._tell(classifier, train, plan)
        val = self._val(classifier, texts, coded)
        weights = self.objective.weights(self.rows.targets, str(self.params["class_weights"]))
        tuned = fine_tuning.fine_tune(
            classifier, train, val, plan, self.context.artifacts, self.reporter, weights
        )
        if tuned.score is not None and math.isfinite(tuned.score):
            self.reporter.log(
                f"The model of epoch {tuned.best_epoch:.0f} of {tuned.epochs:.0f} is kept, the best by val."
            )
        memory_estimate.tell_peak(self.reporter, self.context.device)
        decided = self._temperature(classifier, texts, coded)
        classifier.temperature = decided.value
        self._save(classifier, tuned, decided)
        return classifier, {
            "n_train": float(len(train)),
            "n_val_chosen_on": float(len(texts) if val is not None else 0),
            "train_loss": tuned.train_loss,
            "train_epochs": tuned.epochs,
            "train_best_epoch": tuned.best_epoch,
            "train_examples_per_s": len(train) * tuned.epochs / max(tuned.seconds, 1e-9),
        }

    def _classifier(self) -> TextClassifier:
        self.reporter.status("fitting", f"loading {self.source.short}")
        quantize = self.lora.quantize if self.lora else adapters.NONE
        loaded = load_base(self.source.folder, self.objective, quantize)
        model = loaded.model
        tokenizer = load_tokenizer(self.source.folder, model)
        max_length = self._max_length(tokenizer, model.config)
        if self.lora is not None:
            checkpointing = bool(self.params["gradient_checkpointing"])
            model = self.lora.onto(model, loaded.new_layers, checkpointing)
        if quantize == adapters.NONE:
            # As the Hub has some models, in 16 bits, a step of learning would be rounded away.
            model.float().to(self.context.device)
        return TextClassifier(
            model=model,
            tokenizer=tokenizer,
            objective=self.objective,
            paired=self.rows.paired,
            max_length=max_length,
            batch_size=int(self.params["batch_size"]),
            half=self._half(),
        )

    def _half(self) -> str:
        wanted = str(self.params["precision"])
        half = precision(wanted, self.context.device)
        if wanted not in (AUTO, FP32) and half != wanted:
            where = self.context.device
            self.reporter.log(f"{where} does not compute in {wanted}: it is done in fp32.", "warning")
        return half

    def _max_length(self, tokenizer: Any, config: Any) -> int:
        most = most_tokens(tokenizer, config)
        asked = self.params["max_length"]
        if asked is None:
            return usual_length(tokenizer, self.rows.texts, most)
        if most is not None and asked > most:
            self.reporter.log(cut_notice(self.source.name, asked, most), "warning")
            return most
        return int(asked)

    def _plan(self, n_train: int) -> fine_tuning.Plan:
        params, batch_size = self.params, int(self.params["batch_size"])
        accumulation, cards = int(params["gradient_accumulation"]), _cards(self.context.device)
        per_step = batch_size * accumulation * cards
        return fine_tuning.Plan(
            epochs=int(params["epochs"] or fine_tuning.usual_epochs(n_train, per_step)),
            batch_size=batch_size,
            gradient_accumulation=accumulation,
            learning_rate=float(params["learning_rate"] or (LORA_RATE if self.lora else FULL_RATE)),
            warmup=float(params["warmup"]),
            weight_decay=float(params["weight_decay"]),
            patience=int(params["early_stopping"]),
            seed=self.context.seed,
            device=self.context.device,
            cards=cards,
            half=precision(str(params["precision"]), self.context.device),
            checkpointing=bool(params["gradient_checkpointing"]),
        )

    def _tell(self, classifier: TextClassifier, train: TokenItems, plan: fine_tuning.Plan) -> None:
        needed = memory_estimate.estimate(
            classifier.model,
            batch=min(plan.batch_size, len(train)),
            length=max(train.lengths),
            half=bool(plan.half),
            checkpointing=plan.checkpointing,
            on_cuda=plan.device.startswith("cuda"),
        )
        memory_estimate.tell_estimate(self.reporter, needed, plan.device)
        what = "LoRA beside" if self.lora else "fine-tuning"
        self.reporter.log(
            f"{what} {self.source.name}: {len(train)} texts of at most {classifier.max_length} tokens, "
            f"{plan.epochs} epochs at most, {plan.steps(len(train))} steps, learning rate "
            f"{plan.learning_rate:g}, {plan.half or 'fp32'}."
        )
        self.reporter.status("fitting", f"{what} {self.source.short} on {len(train)} texts")

    def _val_rows(self) -> tuple[list[Any], Any]:
        """(texts, coded targets) of the val rows whose labels the train rows have."""
        import numpy as np

        name = self.context.scheme.name
        held_out = [row for row in self.context.rows("val") if row.get("targets", {}).get(name) is not None]
        rows = OddRows(self.rows.paired).left_out(held_out)
        codes = [_coded(self.objective, row["targets"][name]) for row in rows]
        known = [number for number, code in enumerate(codes) if code is not None]
        if len(known) < len(rows):
            self.reporter.log(
                f"{len(rows) - len(known)} of {len(rows)} val items have an answer that no train item has: "
                "epoch and temperature are chosen by the others.",
                "warning",
            )
        texts = [texts_of(rows[number], self.rows.paired) for number in known]
        return texts, np.asarray([codes[number] for number in known])

    def _val(self, classifier: TextClassifier, texts: Texts, coded: Any) -> TokenItems | None:
        if len(texts) < epoch_choice.MIN_ROWS:
            self.reporter.log(
                f"{len(texts)} val items; {epoch_choice.MIN_ROWS} are needed to choose the best epoch by, so "
                "the last one is kept."
            )
            return None
        tokens = encode(classifier.tokenizer, texts, classifier.max_length)
        return TokenItems(tokens, self.objective.targets(coded))

    def _temperature(self, classifier: TextClassifier, texts: Texts, coded: Any) -> Temperature:
        if not self.params["calibrate"]:
            return Temperature(1.0, "calibrate is false")
        if not texts:
            return Temperature(1.0, "there are no val items")
        self.reporter.status("calibrating", "comparing probabilities on val")
        chosen = choose(self.objective, classifier.outputs(texts), coded, self.context.seed)
        verb = "not calibrated" if chosen.value == 1.0 else f"calibrated (temperature {chosen.value:.2f})"
        self.reporter.log(f"Probabilities {verb}: {chosen.reason}.")
        return chosen

    def _base(self) -> dict[str, Any]:
        """Enough to find the same model again: a folder's may be another one tomorrow."""
        if self.lora is None or self.source.revision:
            return self.source.as_json()
        return {**self.source.as_json(), "digest": digest(self.source.folder)}

    def _save(self, classifier: TextClassifier, tuned: fine_tuning.Tuned, decided: Temperature) -> None:
        self.reporter.status("saving", "saving the model")
        artifacts, scheme = self.context.artifacts, self.context.scheme
        folder = artifacts / (ADAPTER if self.lora else MODEL)
        with quiet():
            if self.lora is None:
                classifier.model.save_pretrained(str(folder))
            else:
                adapters.save_adapter(classifier.model, folder, self.source.name)
            classifier.tokenizer.save_pretrained(str(folder))
        model_files.write_json(artifacts / model_files.CALIBRATION, decided.as_json())
        card = {
            "trainer": "hf-text-classification",
            "scheme": scheme.name,
            "annotation_type": scheme.annotation_type,
            "kind": scheme.kind,
            "base_model": self._base(),
            "lora": self.lora is not None,
            "quantize": self.lora.quantize if self.lora else adapters.NONE,
            "objective": classifier.objective.as_json(),
            "paired": classifier.paired,
            "max_length": classifier.max_length,
            "batch_size": classifier.batch_size,
            "temperature": classifier.temperature,
            "calibration": decided.as_json(),
            "best_epoch": tuned.best_epoch,
            "label_order": list(classifier.objective.labels),
            "n_train": len(self.rows.texts),
            "bundle_digest": self.context.bundle_digest,
            "seed": self.context.seed,
            "params": dict(self.params),
            "versions": _versions(),
            "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        model_files.write_json(artifacts / model_files.CARD, card)


def _objective(context: FitContext, rows: TrainRows) -> Objective:
    if context.scheme.kind != kinds.CONTINUOUS:
        return Objective(context.scheme.kind, tuple(rows.labels))
    low, high = float(rows.targets.min()), float(rows.targets.max())
    bounds = value_range(context.scheme.options, low, high)
    spread = float(rows.targets.std()) or 1.0
    return Objective(context.scheme.kind, (), float(rows.targets.mean()), spread, bounds)


def _coded(objective: Objective, target: Any) -> Any:
    """A target as train_rows codes it; None for a label that no train item has."""
    if objective.kind == kinds.CONTINUOUS:
        return float(target)
    if objective.kind == kinds.MULTILABEL:
        holding = {str(label) for label in target}
        return [label in holding for label in objective.labels]
    label = str(target)
    return objective.labels.index(label) if label in objective.labels else None


def _cards(device: str) -> int:
    """How many share each batch: all that are visible, of which a run sees those that it was given."""
    if device != "cuda":
        return 1
    import torch

    return max(1, int(torch.cuda.device_count()))


def _versions() -> dict[str, str]:
    found = {"python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            continue
    return found
