"""A trainer for tests, with nothing but the standard library; it does what its parameter `play` says.

succeed  report ten metrics and learn the most frequent label
fail     report five metrics, then fail
wait     report five metrics, wait for the file `go` in the job folder (60 s), then succeed
stubborn wait, and ignore SIGTERM
die      report five metrics, then be gone without a word, as after SIGKILL
leave    report five metrics, then end without a result, as cleanly as can be
"""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from potato_ray.trainers import kinds
from potato_ray.trainers.base import (
    MIN_INSTANCES,
    FitContext,
    Licence,
    Param,
    Prediction,
    Row,
    Trainer,
    TrainerError,
)


class Playing(Trainer):
    """See the module."""

    name = "playing"
    description = "Does what it is told."
    kinds = (kinds.NOMINAL,)
    params = (
        Param(
            "play",
            "choice",
            "succeed",
            "What to do.",
            choices=("succeed", "fail", "wait", "stubborn", "die", "leave"),
        ),
        MIN_INSTANCES,
    )
    requires = ()
    install_hint = ""
    licence = Licence("Apache-2.0")

    def fit(self, context: FitContext) -> dict[str, float]:
        play = context.params["play"]
        if play == "stubborn":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
        context.reporter.status("fitting", "playing")
        self._report(context, 0)
        if play == "fail":
            raise TrainerError("fit_failed", "It was told to fail.", "Tell it to succeed.")
        if play == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if play == "leave":
            os._exit(0)
        if play in ("wait", "stubborn"):
            _wait_for(context.artifacts.parent / "go")
        self._report(context, 5)
        labels = [row["targets"][context.scheme.name] for row in context.rows("train")]
        self.label = max(sorted(set(labels)), key=labels.count)
        (context.artifacts / "model.json").write_text(json.dumps({"label": self.label}))
        return {"train_n": float(len(labels))}

    def _report(self, context: FitContext, first: int) -> None:
        for step in range(first, first + 5):
            context.reporter.metric("train_step", float(step), step)

    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        for row in rows:
            yield Prediction(row["instance_id"], {"label": self.label}, 1.0)

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> Playing:
        trainer = cls()
        trainer.label = json.loads((artifacts / "model.json").read_text())["label"]
        return trainer


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 60.0
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
