"""hf-text-classification: a pretrained transformer, fine-tuned on the labels."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping

from potato_ray.trainers import adapters, fine_tuning, hf_fit, hf_model, kinds, model_files, model_folder
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
from potato_ray.trainers.installing import missing_dependency
from potato_ray.trainers.pretrained import Source, locate
from potato_ray.trainers.text_objective import BALANCED, NONE, Objective
from potato_ray.trainers.train_rows import OddRows, read_train_rows, texts_of

DEFAULT_MODEL = "answerdotai/ModernBERT-base"
WINDOW_ROWS = 4096
"""So many rows are predicted at once, batches of like length among them."""


class HfTextClassification(Trainer):
    """Classes, sets of labels, scales and numbers by one of the models that transformers knows."""

    name = "hf-text-classification"
    description = "A pretrained transformer, fine-tuned; it pays from a hundred labels on, and wants a GPU."
    kinds = (kinds.NOMINAL, kinds.ORDINAL, kinds.MULTILABEL, kinds.CONTINUOUS)
    selects_on_val = True
    params = (
        Param("model_name", "str", DEFAULT_MODEL, "The model: its id on the Hugging Face Hub, or a folder."),
        Param(
            "epochs",
            "int",
            None,
            f"How often each train item is seen, at most. Left out: {fine_tuning.FEWEST_EPOCHS} to "
            f"{fine_tuning.MOST_EPOCHS}, about {fine_tuning.USUAL_STEPS} steps in all.",
            minimum=1,
            maximum=1000,
            optional=True,
        ),
        Param("batch_size", "int", 16, "Items in a batch, on each GPU.", minimum=1, maximum=4096),
        Param(
            "learning_rate",
            "float",
            None,
            f"The highest learning rate. Left out: {hf_fit.FULL_RATE:g}, and {hf_fit.LORA_RATE:g} with lora.",
            minimum=1e-8,
            maximum=1.0,
            optional=True,
        ),
        adapters.LORA,
        Param(
            "max_length",
            "int",
            None,
            "Longer texts are cut after so many tokens. Left out: what 99 of 100 train texts have.",
            minimum=8,
            maximum=131072,
            optional=True,
            advanced=True,
        ),
        Param(
            "gradient_accumulation",
            "int",
            1,
            "Batches in a step of learning: raise it where a larger batch_size does not fit.",
            minimum=1,
            maximum=4096,
            advanced=True,
        ),
        Param(
            "warmup",
            "float",
            0.1,
            "The share of the steps in which the learning rate rises.",
            minimum=0.0,
            maximum=1.0,
            advanced=True,
        ),
        Param("weight_decay", "float", 0.01, "AdamW's.", minimum=0.0, maximum=1.0, advanced=True),
        Param(
            "class_weights",
            "choice",
            NONE,
            "balanced: rare labels weigh as much as frequent ones.",
            choices=(NONE, BALANCED),
            advanced=True,
        ),
        Param(
            "early_stopping",
            "int",
            3,
            "Epochs without a better one on val, by score or loss, after which training ends; 0: never.",
            minimum=0,
            maximum=1000,
            advanced=True,
        ),
        Param(
            "precision",
            "choice",
            hf_model.AUTO,
            "What is computed in; auto: bf16 where the GPU, or a CPU by its AMX, has it, else fp32.",
            choices=hf_model.PRECISIONS,
            advanced=True,
        ),
        Param(
            "gradient_checkpointing",
            "bool",
            False,
            "Compute some of it twice to need less memory.",
            advanced=True,
        ),
        Param("calibrate", "bool", True, "Correct the probabilities, when that is measured to help on val."),
        MIN_INSTANCES,
    )
    requires = (
        Requirement("numpy", "numpy"),
        Requirement("torch", "torch"),
        Requirement("transformers", "transformers"),
        Requirement("peft", "peft"),
        Requirement("accelerate", "accelerate"),
    )
    install_hint = "pip install torch transformers peft accelerate"
    licence = Licence("Apache-2.0", "https://github.com/huggingface/transformers/blob/main/LICENSE")

    def __init__(self) -> None:
        self._classifier: hf_model.TextClassifier | None = None
        self._reporter: Reporter | None = None

    def fit(self, context: FitContext) -> dict[str, float]:
        """Fine-tune, choose the epoch and the temperature on val, and save; see `Trainer.fit`."""
        lora = adapters.Lora.of(context.params["lora"])
        adapters.check_quantization(lora.quantize if lora else adapters.NONE, context.device)
        self._reporter = context.reporter
        rows = read_train_rows(context)
        wanted = str(context.params["model_name"])
        context.reporter.status("fitting", f"looking for the model {wanted}")
        source = locate(wanted, tell=lambda step: context.reporter.status("fitting", step))
        self._classifier, metrics = hf_fit.HfFit(context, source, rows).run()
        return metrics

    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        """Predict WINDOW_ROWS at a time, batches of like length among them."""
        classifier = self._fitted()
        waiting, odd = iter(rows), OddRows(classifier.paired)
        while True:
            found = list(islice(waiting, WINDOW_ROWS))
            if not found:
                return odd.tell(self._reporter)
            window = odd.left_out(found)
            texts = [texts_of(row, classifier.paired) for row in window]
            answers = classifier.answers(texts) if texts else ()
            for row, (payload, confidence) in zip(window, answers):
                yield Prediction(str(row["instance_id"]), payload, confidence)

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> HfTextClassification:
        """Load a model, or an adapter beside its base; `device` is where it predicts. Raises TrainerError."""
        card = model_files.read_card(artifacts)
        trainer = cls()
        try:
            trainer._classifier = _restored(artifacts, card, device)
        except ImportError as missing:
            raise missing_dependency(missing, cls.install_hint) from missing
        except (KeyError, TypeError, ValueError) as failure:
            raise TrainerError(
                "validation_failed", f"{model_files.CARD} is none of {cls.name}: {failure!r}.", "Train again."
            ) from failure
        return trainer

    def label_order(self) -> list[str]:
        return list(self._fitted().objective.labels)

    def _fitted(self) -> hf_model.TextClassifier:
        if self._classifier is None:
            raise TrainerError("fit_failed", "There is no model yet.", "Call fit or load first.")
        return self._classifier


def _restored(artifacts: Path, card: Mapping[str, Any], device: str) -> hf_model.TextClassifier:
    objective = Objective.from_json(card["objective"])
    quantize = str(card["quantize"])
    folder = artifacts / (hf_fit.ADAPTER if card["lora"] else hf_fit.MODEL)
    if card["lora"]:
        adapters.check_quantization(quantize, device)
        base = card["base_model"]
        source = locate(str(base["name"]), str(base["revision"]))
        _check_same(source, str(base.get("digest", "")))
        loaded = hf_model.load_base(source.folder, objective, quantize)
        model = adapters.with_adapter(loaded.model, folder)
    else:
        model = hf_model.load_trained(folder, objective)
    tokenizer = hf_model.load_tokenizer(folder, model)
    if quantize == adapters.NONE:
        model.float().to(device)
    return hf_model.TextClassifier(
        model=model,
        tokenizer=tokenizer,
        objective=objective,
        paired=bool(card["paired"]),
        max_length=int(card["max_length"]),
        batch_size=int(card["batch_size"]),
        half=hf_model.precision(str(card["params"]["precision"]), device),
        temperature=float(card["temperature"]),
    )


def _check_same(base: Source, digest: str) -> None:
    if digest and model_folder.digest(base.folder) != digest:
        raise TrainerError(
            "validation_failed",
            f"The model in {base.folder} is another one than the adapter was trained beside.",
            "Put that model back there, or train again.",
        )
