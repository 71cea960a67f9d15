#!/usr/bin/env python3
"""How good the trainers for texts are on the same items: held-out macro F1 of each, and from few labels.

    python tests/bench/text_trainers.py PROJECT --model FOLDER [--scheme NAME] [--seed 0]
    python tests/bench/text_trainers.py PROJECT --model FOLDER --few 8 64 --seeds 5

PROJECT is a folder with Potato's config.yaml, MODEL a sentence-transformers model that is on this machine.
The bundle is built as for a run, and each trainer fits and predicts as a worker has it do. With --few, N
train items of each label are drawn for each seed, the same ones for every trainer; val has as many then, for
nobody with 8 labels has 150 more to choose an epoch by. Differences are paired: seeds and held-out items are
drawn anew 2,000 times, the same for both trainers.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.metrics import f1_score

from potato_ray.bundle.builder import build
from potato_ray.bundle.reading import read_manifest
from potato_ray.bundle.request import BundleRequest
from potato_ray.config import load
from potato_ray.trainers.base import FitContext, Reporter, SchemeSpec, TrainerError
from potato_ray.trainers.params import complete
from potato_ray.trainers.registry import require_trainer

RESAMPLED = 2000
HELD_OUT = ("val", "test")
Rows = list[dict[str, Any]]


@dataclass(frozen=True)
class Contestant:
    """A trainer with the parameters that it gets here."""

    title: str
    trainer: str
    params: Mapping[str, Any]


def contestants(model: str) -> list[Contestant]:
    kwargs = {"model_name": model}
    embeddings = {"vectorizer": "sentence-transformers", "vectorizer_kwargs": kwargs}
    alone = {**embeddings, "vectorizer_kwargs": {**kwargs, "words": False}}
    return [
        Contestant("sklearn-text, TF-IDF", "sklearn-text", {}),
        Contestant("sklearn-text, sentence embeddings and words", "sklearn-text", embeddings),
        Contestant("sklearn-text, sentence embeddings alone", "sklearn-text", alone),
        Contestant("hf-text-classification", "hf-text-classification", {"model_name": model}),
        Contestant(
            "hf-text-classification, LoRA", "hf-text-classification", {"model_name": model, "lora": True}
        ),
        Contestant("setfit", "setfit", {"model_name": model}),
    ]


class Quiet(Reporter):
    """Keeps the warnings."""

    def __init__(self) -> None:
        self.warnings: list[str] = []

    def status(self, phase: str, step: str = "") -> None: ...

    def progress(self, current: float, total: float, eta_s: float | None = None) -> None: ...

    def metric(self, name: str, value: float, step: int | None = None) -> None: ...

    def log(self, message: str, level: str = "info") -> None:
        if level == "warning":
            self.warnings.append(message)


@dataclass(frozen=True)
class Study:
    """A bundle's scheme and its labelled rows by split."""

    scheme: SchemeSpec
    rows: Mapping[str, Rows]
    digest: str

    @classmethod
    def of(cls, project: Path, scheme_name: str | None) -> Study:
        config = load(project / "config.yaml")
        name = scheme_name or config.annotation_schemes[0]["name"]
        with tempfile.TemporaryDirectory() as folder:
            bundle = Path(folder) / "bundle"
            build(BundleRequest.from_config(config, [name]), bundle)
            manifest = read_manifest(bundle)
            found = manifest["schemas"][0]
            labels = tuple(manifest["labels"].get(name, ()))
            scheme = SchemeSpec(name, found["annotation_type"], found["kind"], labels)
            rows = {split: labelled(bundle / f"{split}.jsonl", name) for split in ("train", *HELD_OUT)}
        return cls(scheme, rows, str(manifest["digest"])[:12])

    def few(self, per_label: int, seed: int) -> Study:
        """`per_label` train items of each label, and as many for val."""
        draw = random.Random(f"{per_label}:{seed}")
        taken: dict[str, Rows] = {}
        for split in ("train", "val"):
            by_label: dict[str, Rows] = {}
            for row in draw.sample(self.rows[split], len(self.rows[split])):
                by_label.setdefault(str(row["targets"][self.scheme.name]), []).append(row)
            taken[split] = [row for rows in by_label.values() for row in rows[:per_label]]
        return Study(self.scheme, {**self.rows, **taken}, self.digest)


@dataclass(frozen=True)
class Outcome:
    """`right` and `said` are labels by split, in the order of the rows."""

    right: Mapping[str, list[str]]
    said: Mapping[str, list[str]]
    seconds: float

    def score(self, split: str) -> float:
        return macro_f1(self.right[split], self.said[split])

    @property
    def mean(self) -> float:
        return statistics.fmean(self.score(split) for split in HELD_OUT)


def labelled(path: Path, scheme: str) -> Rows:
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    return [row for row in rows if scheme in row.get("targets", {})]


def macro_f1(right: Sequence[str], said: Sequence[str]) -> float:
    return float(f1_score(right, said, average="macro", labels=sorted(set(right)), zero_division=0))


def fit(contestant: Contestant, study: Study, seed: int, held_out: Mapping[str, Rows]) -> Outcome:
    """Fit on the study's train rows, and predict `held_out`."""
    kind = require_trainer(contestant.trainer)
    with tempfile.TemporaryDirectory() as folder:
        context = FitContext(
            scheme=study.scheme,
            params=complete(kind, contestant.params, {"min_instances": 2}),
            rows=lambda split: (dict(row) for row in study.rows.get(split, ())),
            n_rows={split: len(rows) for split, rows in study.rows.items()},
            artifacts=Path(folder) / "artifacts",
            media=Path(folder) / "media",
            seed=seed,
            device="cpu",
            reporter=Quiet(),
        )
        context.artifacts.mkdir()
        began = time.perf_counter()
        trainer = kind()
        trainer.fit(context)
        said = {
            split: [str(p.payload["label"]) for p in trainer.predict(dict(row) for row in rows)]
            for split, rows in held_out.items()
        }
        seconds = time.perf_counter() - began
    right = {
        split: [str(row["targets"][study.scheme.name]) for row in rows] for split, rows in held_out.items()
    }
    return Outcome(right, said, seconds)


def interval(values: Iterable[float]) -> tuple[float, float]:
    low, high = np.percentile(list(values), [2.5, 97.5])
    return float(low), float(high)


def resampled(outcomes: Sequence[Outcome], of: Callable[[Outcome, Mapping[str, Any]], float]) -> np.ndarray:
    """`of` over outcomes and held-out items drawn anew, RESAMPLED times; equal draws for equal sizes."""
    draw = np.random.default_rng(0)
    sizes = {split: len(outcomes[0].right[split]) for split in HELD_OUT}
    found = np.empty(RESAMPLED)
    for number in range(RESAMPLED):
        picked = {split: draw.integers(0, size, size) for split, size in sizes.items()}
        chosen = draw.integers(0, len(outcomes), len(outcomes))
        found[number] = statistics.fmean(of(outcomes[n], picked) for n in chosen)
    return found


def score_of(outcome: Outcome, picked: Mapping[str, Any]) -> float:
    """The mean of val and test macro F1 on the picked items."""
    scores = []
    for split in HELD_OUT:
        right = np.asarray(outcome.right[split])[picked[split]]
        said = np.asarray(outcome.said[split])[picked[split]]
        scores.append(fast_macro_f1(right, said))
    return statistics.fmean(scores)


def fast_macro_f1(right: Any, said: Any) -> float:
    found = []
    for label in np.unique(right):
        hits = np.sum((right == label) & (said == label))
        found.append(2 * hits / (np.sum(right == label) + np.sum(said == label)))
    return float(np.mean(found))


def split_interval(outcome: Outcome, split: str) -> tuple[float, float]:
    right, said = np.asarray(outcome.right[split]), np.asarray(outcome.said[split])
    draw = np.random.default_rng(0)
    picks = (draw.integers(0, len(right), len(right)) for _ in range(RESAMPLED))
    return interval(fast_macro_f1(right[picked], said[picked]) for picked in picks)


def whole(study: Study, entered: Sequence[Contestant], seed: int) -> None:
    """The table over all train items."""
    held_out = {split: study.rows[split] for split in HELD_OUT}
    sizes = ", ".join(f"{len(rows)} {split}" for split, rows in study.rows.items())
    print(f"bundle {study.digest}, {sizes}, seed {seed}\n")
    print("| trainer | val macro F1 | test macro F1 | mean | over sklearn-text (95 %) | seconds |")
    print("|---|---|---|---|---|---|")
    first: np.ndarray | None = None
    for contestant in entered:
        try:
            outcome = fit(contestant, study, seed, held_out)
        except TrainerError as error:
            print(f"| {contestant.title} | {error.message} {error.next_step} | | | | |")
            continue
        cells = []
        for split in HELD_OUT:
            low, high = split_interval(outcome, split)
            cells.append(f"{outcome.score(split):.3f} ({low:.3f} to {high:.3f})")
        scores = resampled([outcome], score_of)
        first = scores if first is None else first
        low, high = interval(scores - first)
        gain = f"{float(np.mean(scores - first)):+.3f} ({low:+.3f} to {high:+.3f})"
        cells += [f"{outcome.mean:.3f}", gain, f"{outcome.seconds:.0f}"]
        print(f"| {contestant.title} | {' | '.join(cells)} |", flush=True)


def few(study: Study, entered: Sequence[Contestant], sizes: Sequence[int], n_seeds: int) -> None:
    """The table over few train items of each label."""
    held_out = {split: study.rows[split] for split in HELD_OUT}
    n_items = sum(map(len, held_out.values()))
    print(f"bundle {study.digest}, seeds 0 to {n_seeds - 1}, scored on all {n_items} held-out items\n")
    for per_label in sizes:
        print(f"| {per_label} of each label | mean macro F1 (range) | setfit minus it (95 %) | seconds |")
        print("|---|---|---|---|")
        drawn: dict[str, np.ndarray] = {}
        lines: dict[str, str] = {}
        for contestant in entered:
            outcomes = [
                fit(contestant, study.few(per_label, seed), seed, held_out) for seed in range(n_seeds)
            ]
            print(f"done: {contestant.title}", file=sys.stderr, flush=True)
            means = [outcome.mean for outcome in outcomes]
            seconds = statistics.fmean(outcome.seconds for outcome in outcomes)
            drawn[contestant.title] = resampled(outcomes, score_of)
            lines[contestant.title] = (
                f"{statistics.fmean(means):.3f} ({min(means):.3f} to {max(means):.3f})|{seconds:.0f}"
            )
        for title, line in lines.items():
            figures, seconds_text = line.split("|")
            gain = ""
            if "setfit" in drawn and title != "setfit":
                difference = drawn["setfit"] - drawn[title]
                low, high = interval(difference)
                gain = f"{float(np.mean(difference)):+.3f} ({low:+.3f} to {high:+.3f})"
            print(f"| {title} | {figures} | {gain} | {seconds_text} |", flush=True)
        print()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("project", type=Path)
    parser.add_argument("--model", required=True, help="folder of a sentence-transformers model")
    parser.add_argument("--scheme")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--few", type=int, nargs="+", default=[])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], help="parts of the titles of those that take part")
    parser.add_argument("--without", nargs="+", default=[], help="parts of the titles of those that do not")
    arguments = parser.parse_args()
    study = Study.of(arguments.project, arguments.scheme)
    entered = [
        each
        for each in contestants(arguments.model)
        if not arguments.only or any(part in each.title for part in arguments.only)
        if not any(part in each.title for part in arguments.without)
    ]
    if arguments.few:
        few(study, entered, arguments.few, arguments.seeds)
    else:
        whole(study, entered, arguments.seed)


if __name__ == "__main__":
    main()
