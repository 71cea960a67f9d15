"""Training a transformer by transformers' own Trainer: batches by length, the best epoch on val, and a watch.

Only what the versions from 4.41 to 5 have in common is used, and named here alone where they differ.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Callable, Mapping

from potato_ray.trainers import epoch_choice, partial_model
from potato_ray.trainers.base import Reporter, TrainerError
from potato_ray.trainers.hf_model import TextClassifier, collator
from potato_ray.trainers.patience import Patience
from potato_ray.trainers.quiet import quiet
from potato_ray.trainers.token_data import TokenItems
from potato_ray.trainers.unreadable import in_a_line

CHECKPOINTS = "checkpoints"
CURVE_POINTS = 50
"""So many points at most in the curve of the train loss."""
FEWEST_EPOCHS, MOST_EPOCHS, USUAL_STEPS = 4, 40, 250
"""How long to train when nobody says: a handful of texts gets many epochs, for it is steps that teach
(Mosbach et al. 2021, "On the Stability of Fine-tuning BERT")."""


@dataclass(frozen=True)
class Plan:
    """How to train. `patience` in epochs (see `Patience`), 0 for none; `half` as in TextClassifier.

    `batch_size` is that of each of the `cards`.
    """

    epochs: int
    batch_size: int
    gradient_accumulation: int
    learning_rate: float
    warmup: float
    weight_decay: float
    patience: int
    seed: int
    device: str
    cards: int = 1
    half: str = ""
    checkpointing: bool = False

    def steps(self, n_train: int) -> int:
        """Of the optimizer, in all."""
        batches = math.ceil(n_train / (self.batch_size * self.cards))
        return self.epochs * max(1, math.ceil(batches / self.gradient_accumulation))

    def warmup_steps(self, n_train: int) -> int:
        """In which the learning rate rises."""
        return round(self.warmup * self.steps(n_train))


@dataclass(frozen=True)
class Tuned:
    """`best_epoch` is that of the model kept, of `epochs` that were trained; `score` None without val."""

    best_epoch: float
    epochs: float
    train_loss: float
    seconds: float
    score: float | None


def usual_epochs(n_train: int, per_step: int) -> int:
    """As many as USUAL_STEPS of `per_step` items take, within bounds."""
    per_epoch = max(1, math.ceil(n_train / per_step))
    return max(FEWEST_EPOCHS, min(MOST_EPOCHS, math.ceil(USUAL_STEPS / per_epoch)))


def fine_tune(
    classifier: TextClassifier,
    train: TokenItems,
    val: TokenItems | None,
    plan: Plan,
    folder: Path,
    reporter: Reporter,
    weights: Any = None,
) -> Tuned:
    """Train the classifier's model in place; with `val` it ends up as after its best epoch.

    Checkpoints lie below `folder`/checkpoints meanwhile; a training that is stopped leaves the best one, or
    else the model as it is then, as `folder`/partial. Raises TrainerError (fit_failed) when the loss is no
    number any more.
    """
    with quiet():
        learner = _learner(classifier, train, val, plan, folder, reporter, weights)
        began = time.monotonic()
        try:
            done = learner.train()
            _check_finite(classifier.model, learner.state.global_step, plan)
        except BaseException as end:
            _keep(folder, learner, reporter, stopped=not isinstance(end, Exception))
            raise
        partial_model.remove(folder / CHECKPOINTS)
    state = learner.state
    epochs = float(state.epoch or plan.epochs)
    return Tuned(
        best_epoch=_epoch_of(state) if state.best_model_checkpoint else epochs,
        epochs=epochs,
        train_loss=float(done.training_loss),
        seconds=time.monotonic() - began,
        score=None if state.best_metric is None else float(state.best_metric),
    )


def _keep(folder: Path, learner: Any, reporter: Reporter, stopped: bool) -> None:
    """What the end of a training leaves; that it could not be kept must not hide why it ended."""
    try:
        partial_model.keep(folder, folder / CHECKPOINTS, learner, as_it_is=stopped)
    except Exception as failure:  # noqa: BLE001 - a full disk, a GPU that has gone: whatever it is
        reporter.log(f"The model so far could not be kept: {in_a_line(failure)}", "warning")


def _learner(
    classifier: TextClassifier,
    train: TokenItems,
    val: TokenItems | None,
    plan: Plan,
    folder: Path,
    reporter: Reporter,
    weights: Any,
) -> Any:
    import transformers

    arguments = transformers.TrainingArguments(**_arguments(plan, len(train), val is not None, folder))
    callbacks = [_watch(plan, reporter)]
    if plan.patience and val is not None:
        callbacks.append(_early_end(Patience(plan.patience, plan.warmup_steps(len(train))), plan, reporter))
    learner = _learner_class(classifier, weights, plan)(
        model=classifier.model,
        args=arguments,
        train_dataset=train,
        eval_dataset=val,
        data_collator=collator(classifier.tokenizer, plan.device.partition(":")[0]),
        compute_metrics=_scores(classifier) if val is not None else None,
        callbacks=callbacks,
    )
    # Our loss is a batch's mean; without this, models that average by themselves over an accumulated batch
    # would be taught by the sum.
    learner.model_accepts_loss_kwargs = False
    learner.remove_callback(transformers.PrinterCallback)
    return learner


def _arguments(plan: Plan, n_train: int, has_val: bool, folder: Path) -> dict[str, Any]:
    import transformers

    steps = plan.steps(n_train)
    arguments = {
        "output_dir": str(folder / CHECKPOINTS),
        "num_train_epochs": plan.epochs,
        "per_device_train_batch_size": plan.batch_size,
        "per_device_eval_batch_size": plan.batch_size * 2,
        "gradient_accumulation_steps": plan.gradient_accumulation,
        "learning_rate": plan.learning_rate,
        "warmup_steps": plan.warmup_steps(n_train),
        "weight_decay": plan.weight_decay,
        "logging_steps": max(1, steps // CURVE_POINTS),
        "logging_nan_inf_filter": False,
        "eval_strategy": "epoch" if has_val else "no",
        "save_strategy": _saved_when() if has_val else "no",
        "save_total_limit": 1,
        "save_only_model": True,
        "load_best_model_at_end": has_val,
        "metric_for_best_model": "worth" if has_val else None,
        "greater_is_better": True,
        "seed": plan.seed,
        "bf16": plan.half == "bf16",
        "fp16": plan.half == "fp16",
        "use_cpu": plan.device == "cpu",
        "dataloader_pin_memory": plan.device.startswith("cuda"),
        "remove_unused_columns": False,
        "label_names": ["labels"],
        "disable_tqdm": True,
        "report_to": "none",
    }
    known = {each.name for each in fields(transformers.TrainingArguments)}
    if "train_sampling_strategy" in known:  # since 5.0
        arguments["train_sampling_strategy"] = "group_by_length"
    else:
        arguments["group_by_length"] = True
    if plan.checkpointing:
        new = "activation_checkpointing" in known  # since 5.20
        arguments["activation_checkpointing" if new else "gradient_checkpointing"] = True
        arguments["gradient_checkpointing_kwargs"] = {"use_reentrant": False}
    return {name: value for name, value in arguments.items() if name in known}


def _saved_when() -> str:
    """After epochs that are the best so far alone, where transformers knows that (since 4.47)."""
    from transformers import trainer_utils

    strategy = getattr(trainer_utils, "SaveStrategy", None)
    return "best" if hasattr(strategy, "BEST") else "epoch"


def _learner_class(classifier: TextClassifier, weights: Any, plan: Plan) -> Any:
    import torch
    import transformers

    class Learner(transformers.Trainer):  # type: ignore[misc]
        """With our loss, which is looked at in each step."""

        def compute_loss(self, model: Any, inputs: Any, return_outputs: bool = False, **_: Any) -> Any:
            targets = inputs.pop("labels")
            outputs = model(**inputs)
            of_answers = None
            if weights is not None:
                of_answers = torch.as_tensor(weights, device=outputs.logits.device)
            loss = classifier.objective.loss(outputs.logits, targets, of_answers)
            if model.training and not torch.isfinite(loss):
                raise _diverged(float(loss.detach()), self.state.global_step + 1, plan)
            return (loss, outputs) if return_outputs else loss

    return Learner


def _scores(classifier: TextClassifier) -> Callable[[Any], Mapping[str, float]]:
    def scores(said: Any) -> Mapping[str, float]:
        # By the targets that come with the outputs: the rows of val, too, are put together by length.
        coded = classifier.objective.coded(said.label_ids)
        name, value = epoch_choice.metric(classifier.objective, said.predictions, coded)
        worth = epoch_choice.worth(classifier.objective, said.predictions, coded)
        return {name: value, "worth": worth}

    return scores


def _watch(plan: Plan, reporter: Reporter) -> Any:
    import transformers

    curves = {"eval_loss": "val_loss", **{f"eval_{name}": f"val_{name}" for name in epoch_choice.METRICS}}

    class Watch(transformers.TrainerCallback):  # type: ignore[misc]
        """Says how far it is and how it goes."""

        began = 0.0

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.began = time.monotonic()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self._tell_progress(state)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            loss = (logs or {}).get("loss")
            if loss is not None and math.isfinite(float(loss)):
                reporter.metric("train_loss", float(loss), state.global_step)

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
            for theirs, ours in curves.items():
                value = (metrics or {}).get(theirs)
                if value is not None and math.isfinite(float(value)):
                    reporter.metric(ours, float(value), state.global_step)
            reporter.status("fitting", f"epoch {round(state.epoch)} of {plan.epochs} done")
            self._tell_progress(state)  # a step line begins without any

        def _tell_progress(self, state: Any) -> None:
            took = time.monotonic() - self.began
            left = (state.max_steps - state.global_step) * took / max(1, state.global_step)
            reporter.progress(state.global_step, state.max_steps, left)

    return Watch()


def _early_end(patience: Patience, plan: Plan, reporter: Reporter) -> Any:
    import transformers

    class EarlyEnd(transformers.TrainerCallback):  # type: ignore[misc]
        """Ends the training when patience is over, and says so."""

        def on_evaluate(self, args: Any, state: Any, control: Any, metrics: Any = None, **_: Any) -> None:
            worth, loss = float(metrics["eval_worth"]), float(metrics["eval_loss"])
            if patience.is_over(state.global_step, worth, loss) and state.global_step < state.max_steps:
                control.should_training_stop = True
                reporter.log(
                    f"Stopped early, after epoch {round(state.epoch)} of {plan.epochs}: {patience.epochs} "
                    "in a row were better neither by the score on val nor by its loss (early_stopping)."
                )

    return EarlyEnd()


def _check_finite(model: Any, step: int, plan: Plan) -> None:
    """The loss is looked at before each step: the last one may have spoilt the weights."""
    import torch

    if not all(bool(torch.isfinite(each).all()) for each in model.parameters() if each.requires_grad):
        raise _diverged(math.nan, step, plan, "Weights of the model")


def _diverged(loss: float, step: int, plan: Plan, what: str = "The loss") -> TrainerError:
    how = ", and set precision to fp32" if plan.half == "fp16" else ""
    return TrainerError(
        "fit_failed",
        f"{what} became {loss} at step {step}, with a learning rate of {plan.learning_rate:g}.",
        f"Lower learning_rate, to {plan.learning_rate / 10:g} for a start{how}.",
    )


def _epoch_of(state: Any) -> float:
    """The epoch after which the best checkpoint was written, by the number of its step."""
    step = partial_model.step_of(Path(state.best_model_checkpoint))
    at = [entry["epoch"] for entry in state.log_history if entry.get("step") == step and "epoch" in entry]
    return float(at[-1]) if at else 0.0
