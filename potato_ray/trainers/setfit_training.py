"""A sentence model that learns, by setfit's Trainer, which texts are alike.

Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts". Of setfit's Trainer only the drawing of
pairs is ours (contrast_pairs.py), and its model card, which looks for the data on the Hub, is left out.
"""

from __future__ import annotations

import inspect
import logging
import math
import os
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from potato_ray.trainers import model_files, partial_model, sentence_body
from potato_ray.trainers.base import Reporter, TrainerError
from potato_ray.trainers.contrast_pairs import Pairs
from potato_ray.trainers.quiet import quiet as transformers_quiet

LOG_STEPS = 50
"""So many points at most in the curve of the train loss."""
_SCRATCH = "setfit"
_TALKING = ("setfit", "sentence_transformers")


@dataclass(frozen=True)
class Plan:
    """How the body is trained: `steps` batches of `batch_size` pairs."""

    steps: int
    batch_size: int
    learning_rate: float
    seed: int
    device: str


@dataclass(frozen=True)
class Tuned:
    """The mean loss over all steps, and how long they took."""

    train_loss: float
    seconds: float


def fine_tune(
    model: Any,
    texts: Sequence[str],
    targets: Any,
    pairs: Pairs,
    plan: Plan,
    artifacts: Path,
    reporter: Reporter,
) -> Tuned:
    """Train the body of `model` in place. Raises TrainerError (fit_failed) when the loss is no number.

    Of a training that is told to stop, the body so far stays in `artifacts`/partial.
    """
    watch = _watch(plan, reporter)
    began = time.monotonic()
    scratch = artifacts / _SCRATCH
    try:
        with _on(plan.device):
            trainer = _trainer(model, pairs, plan, scratch, watch)
            trainer.train_embeddings(list(texts), list(targets), args=trainer.args)
    except Exception:
        raise
    except BaseException:
        _keep_partial(model, artifacts, watch.step, plan.steps)
        raise
    finally:
        partial_model.remove(scratch)
    loss = next((e["train_loss"] for e in reversed(watch.history) if "train_loss" in e), math.nan)
    if not math.isfinite(loss):
        raise diverged(loss, plan.steps, plan.learning_rate)
    return Tuned(float(loss), time.monotonic() - began)


def diverged(loss: float, step: int, learning_rate: float) -> TrainerError:
    return TrainerError(
        "fit_failed",
        f"The loss became {loss} at step {step}, with a body_learning_rate of {learning_rate:g}.",
        f"Lower body_learning_rate, to {learning_rate / 10:g} for a start.",
    )


def check_finite(features: Any, plan: Plan) -> None:
    """Raises TrainerError (fit_failed) where an embedding is no number: the last steps may have spoilt it."""
    import numpy as np

    if not np.isfinite(features).all():
        raise diverged(math.nan, plan.steps, plan.learning_rate)


@contextmanager
def quiet() -> Iterator[None]:
    """Without what setfit and the libraries below it tell programmers; warnings of other kinds stay."""
    import setfit  # noqa: F401 - importing it makes its logger talk

    loggers = [logging.getLogger(name) for name in _TALKING]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with transformers_quiet():
            yield
    finally:
        for logger, level in zip(loggers, levels):
            logger.setLevel(level)


def _keep_partial(model: Any, artifacts: Path, step: int, of_steps: int) -> None:
    if step == 0:
        return
    folder = artifacts / partial_model.PARTIAL
    sentence_body.save(model, folder)
    note = {"partial": True, "step": step, "of_steps": of_steps, "chosen_on_val": False}
    model_files.write_json(folder / partial_model.NOTE, note)


@contextmanager
def _on(device: str) -> Iterator[None]:
    """Keep off a GPU that this run was not given: setfit has no argument for it, accelerate has a switch."""
    name = "ACCELERATE_USE_CPU"
    before = os.environ.get(name)
    if device == "cpu":
        os.environ[name] = "true"
    try:
        yield
    finally:
        if device == "cpu":
            os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def _trainer(model: Any, pairs: Pairs, plan: Plan, folder: Path, watch: Any) -> Any:
    import setfit
    import transformers

    arguments = setfit.TrainingArguments(
        output_dir=str(folder),
        batch_size=plan.batch_size,
        max_steps=plan.steps,
        body_learning_rate=plan.learning_rate,
        seed=plan.seed,
        report_to="none",
        logging_steps=max(1, plan.steps // LOG_STEPS),
        save_strategy="no",
        show_progress_bar=False,
    )
    # Without train_dataset its model card, and what that asks the Hub, is left out; a metric that is a name
    # would be fetched from the Hub.
    trainer = _trainer_class(pairs)(model=model, args=arguments, metric=_no_metric, callbacks=[watch])
    inner = trainer.st_trainer
    for callback in (transformers.ProgressCallback, transformers.PrinterCallback):
        inner.remove_callback(callback)
    inner.args.logging_nan_inf_filter = False
    inner.args.dataloader_pin_memory = plan.device.startswith("cuda")
    _take_counts(inner)
    inner.args._n_gpu = min(inner.args.n_gpu, 1)  # one GPU is what a run has asked for
    return trainer


def _take_counts(inner: Any) -> None:
    """Let a sentence-transformers before 3.3 be called by transformers 4.46, which are Python 3.8's newest.

    That transformers hands each loss a count of items, which is for batches in parts; ours are whole.
    """
    compute = inner.compute_loss
    if "num_items_in_batch" not in inspect.signature(compute).parameters:

        def compute_loss(
            model: Any, inputs: Any, return_outputs: bool = False, num_items_in_batch: Any = None
        ) -> Any:
            return compute(model, inputs, return_outputs)

        inner.compute_loss = compute_loss


def _trainer_class(pairs: Pairs) -> Any:
    import datasets
    import setfit

    class BodyTrainer(setfit.Trainer):  # type: ignore[misc]
        """With our pairs."""

        def get_dataset(self, x: Any, y: Any, args: Any, max_pairs: int = -1) -> Any:
            columns = {
                "sentence_1": [x[n] for n in pairs.first.tolist()],
                "sentence_2": [x[n] for n in pairs.second.tolist()],
                "label": [float(alike) for alike in pairs.alike.tolist()],
            }
            return datasets.Dataset.from_dict(columns), args.loss(self.model.model_body)

    return BodyTrainer


def _no_metric(predicted: Any, truth: Any) -> Mapping[str, float]:
    return {}


def _watch(plan: Plan, reporter: Reporter) -> Any:
    import transformers

    class Watch(transformers.TrainerCallback):  # type: ignore[misc]
        """Says how far it is and how it goes, and stops it when the loss is no number any more."""

        began = time.monotonic()
        step = 0
        history: Sequence[Mapping[str, float]] = ()

        def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.began = time.monotonic()

        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            self.step = state.global_step
            took = time.monotonic() - self.began
            left = (state.max_steps - state.global_step) * took / max(1, state.global_step)
            reporter.progress(state.global_step, state.max_steps, left)

        def on_log(self, args: Any, state: Any, control: Any, logs: Any = None, **_: Any) -> None:
            self.history = state.log_history
            loss = (logs or {}).get("embedding_loss")
            if loss is None:
                return
            if not math.isfinite(float(loss)):
                raise diverged(float(loss), state.global_step, plan.learning_rate)
            reporter.metric("train_loss", float(loss), state.global_step)

    return Watch()
