"""How long sklearn-text takes to fit and to predict, and how good it is, on a project's own files.

    python tests/bench/sklearn_text_speed.py BUNDLE [BUNDLE ...] [--scheme NAME] [--param k=json] [--repeat 3]

BUNDLE is a bundle's folder (manifest.json, train.jsonl, ...) as a run leaves it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from potato_ray.trainers.base import FitContext, Reporter, SchemeSpec
from potato_ray.trainers.params import complete
from potato_ray.trainers.sklearn_text import SklearnText


class Phases(Reporter):
    """Times between one status and the next."""

    def __init__(self) -> None:
        self.marks: list[tuple[str, float]] = []

    def status(self, phase: str, step: str = "") -> None:
        self.marks.append((step or phase, time.perf_counter()))

    def progress(self, current: float, total: float, eta_s: float | None = None) -> None: ...

    def metric(self, name: str, value: float, step: int | None = None) -> None: ...

    def log(self, message: str, level: str = "info") -> None:
        self.status(message)

    def text(self, end: float) -> str:
        ends = [t for _, t in self.marks[1:]] + [end]
        return "; ".join(f"{name} {stop - t:.3f}" for (name, t), stop in zip(self.marks, ends, strict=True))


def rows_of(bundle: Path, split: str) -> Iterator[dict[str, Any]]:
    path = bundle / f"{split}.jsonl"
    if path.is_file():
        with path.open(encoding="utf-8") as lines:
            yield from map(json.loads, lines)


def measure(bundle: Path, scheme_name: str | None, params: dict[str, Any]) -> dict[str, Any]:
    manifest = json.loads((bundle / "manifest.json").read_text("utf-8"))
    found = next(s for s in manifest["schemas"] if scheme_name in (None, s["name"]))
    labels = tuple(manifest["labels"].get(found["name"], ()))
    scheme = SchemeSpec(found["name"], found["annotation_type"], found["kind"], labels)
    reporter = Phases()
    with tempfile.TemporaryDirectory() as folder:
        context = FitContext(
            scheme=scheme,
            params=complete(SklearnText, params),
            rows=lambda split: rows_of(bundle, split),
            n_rows={},
            artifacts=Path(folder),
            media=bundle / "media",
            seed=0,
            device="cpu",
            reporter=reporter,
        )
        trainer = SklearnText()
        start = time.perf_counter()
        metrics = trainer.fit(context)
        fitted = time.perf_counter()
        size = (Path(folder) / "model.skops").stat().st_size
    held_out = [row for split in ("val", "test", "unlabeled") for row in rows_of(bundle, split)]
    before = time.perf_counter()
    predictions = {p.instance_id: p.payload for p in trainer.predict(held_out)}
    predicted = time.perf_counter() - before
    answers = [
        (predictions[r["instance_id"]], r["targets"][scheme.name])
        for r in held_out
        if scheme.name in r.get("targets", {})
    ]
    right = [
        payload == {"value": t} or t in (payload.get("label"), payload.get("labels"))
        for payload, t in answers
    ]
    return {
        "n_train": int(metrics["n_train"]),
        "n_predicted": len(held_out),
        "fit_s": fitted - start,
        "predict_s": predicted,
        "model_mb": size / 1e6,
        "accuracy": statistics.mean(right) if right else None,
        "phases": reporter.text(fitted),
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("bundles", nargs="+", type=Path)
    parser.add_argument("--scheme")
    parser.add_argument("--param", action="append", default=[], metavar="NAME=JSON")
    parser.add_argument("--repeat", type=int, default=3)
    args = parser.parse_args()
    params = {name: json.loads(value) for name, _, value in (p.partition("=") for p in args.param)}
    for module in SklearnText.preload:
        __import__(module)
    for bundle in args.bundles:
        results = [measure(bundle, args.scheme, params) for _ in range(args.repeat)]
        best = min(results, key=lambda result: result["fit_s"])
        sys.stdout.write(f"{bundle}: {json.dumps(best, indent=1)}\n")


if __name__ == "__main__":
    main()
