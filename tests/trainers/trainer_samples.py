"""Small sets of labelled texts, and what is left of a run without worker and bundle."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potato_ray.trainers.base import FitContext, Prediction, Reporter, SchemeSpec, Trainer
from potato_ray.trainers.params import complete

PROJECTS = Path(__file__).parents[1] / "projects"

GOOD = ("great", "lovely", "excellent", "pleased", "wonderful")
BAD = ("broken", "awful", "poor", "angry", "useless")
FILLER = [
    "the",
    "a",
    "it",
    "was",
    "my",
    "our",
    "very",
    "new",
    "old",
    "kettle",
    "phone",
    "room",
    "soup",
    "seat",
    "cable",
    "on",
    "for",
    "with",
    "and",
]


class Recorder(Reporter):
    """Keeps what a trainer says."""

    def __init__(self) -> None:
        self.phases: list[str] = []
        self.steps: list[str] = []
        self.lines: list[tuple[str, str]] = []
        self.curves: dict[str, list[tuple[int | None, float]]] = {}
        self.progressed: list[tuple[float, float, float | None]] = []

    def status(self, phase: str, step: str = "") -> None:
        self.phases.append(phase)
        self.steps.append(step)

    def progress(self, current: float, total: float, eta_s: float | None = None) -> None:
        self.progressed.append((current, total, eta_s))

    def metric(self, name: str, value: float, step: int | None = None) -> None:
        self.curves.setdefault(name, []).append((step, value))

    def log(self, message: str, level: str = "info") -> None:
        self.lines.append((level, message))

    @property
    def said(self) -> str:
        return "\n".join(message for _, message in self.lines)

    @property
    def warnings(self) -> list[str]:
        return [message for level, message in self.lines if level == "warning"]


@dataclass
class Fitted:
    """A fitted trainer with what it left behind."""

    trainer: Trainer
    metrics: dict[str, float]
    artifacts: Path
    recorder: Recorder = field(default_factory=Recorder)

    def of(self, texts: Sequence[str]) -> list[Prediction]:
        return list(self.trainer.predict(rows_of(texts)))

    def json(self, name: str) -> dict[str, Any]:
        return dict(json.loads((self.artifacts / name).read_text("utf-8")))


def fit_in(
    folder: Path,
    kind: type[Trainer],
    scheme: str | SchemeSpec,
    splits: Mapping[str, Sequence[Mapping[str, Any]]],
    params: Mapping[str, Any],
    seed: int = 0,
    recorder: Recorder | None = None,
) -> Fitted:
    """Fit a trainer as a worker does, its model below `folder`."""
    trainer, recorder = kind(), recorder or Recorder()
    context = FitContext(
        scheme=SCHEMES[scheme] if isinstance(scheme, str) else scheme,
        params=complete(kind, params),
        rows=lambda split: (dict(row) for row in splits.get(split, ())),
        n_rows={split: len(rows) for split, rows in splits.items()},
        artifacts=folder / "artifacts",
        media=folder / "media",
        seed=seed,
        device="cpu",
        reporter=recorder,
        bundle_digest="d1ge57",
    )
    return Fitted(trainer, trainer.fit(context), context.artifacts, recorder)


def rows_of(texts: Sequence[str], targets: Sequence[Any] | None = None) -> list[dict[str, Any]]:
    """Rows of a split; those with targets are labelled for the scheme `s`."""
    rows: list[dict[str, Any]] = [{"instance_id": f"i{n}", "text": text} for n, text in enumerate(texts)]
    for row, target in zip(rows, targets or (), strict=targets is not None):
        row["targets"] = {"s": target}
    return rows


def sentence(draw: random.Random, words: Sequence[str], n_words: int = 1) -> str:
    parts = draw.sample(FILLER, 5) + draw.sample(list(words), n_words)
    draw.shuffle(parts)
    return " ".join(parts)


def opinions(n: int, noise: float = 0.0, seed: int = 0) -> tuple[list[str], list[str]]:
    """Texts and their label, good or bad, of which a share is wrong."""
    draw = random.Random(seed)
    labels = [draw.choice(("good", "bad")) for _ in range(n)]
    texts = [sentence(draw, GOOD if label == "good" else BAD) for label in labels]
    flipped = {"good": "bad", "bad": "good"}
    return texts, [flipped[label] if draw.random() < noise else label for label in labels]


SCHEMES = {
    "nominal": SchemeSpec("s", "radio", "nominal", ("good", "bad")),
    "ordinal": SchemeSpec("s", "likert", "ordinal", ("1", "2", "3", "4", "5")),
    "multilabel": SchemeSpec("s", "multiselect", "multilabel", ("service", "price", "quality")),
    "continuous": SchemeSpec("s", "slider", "continuous", (), {"min_value": "0", "max_value": 100}),
}
