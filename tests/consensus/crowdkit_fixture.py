"""Answers of random crowds, and what crowd-kit makes of them.

`python tests/consensus/crowdkit_fixture.py` writes crowdkit_posteriors.json anew; it needs crowd-kit.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

RECORDED = Path(__file__).with_name("crowdkit_posteriors.json")


@dataclass(frozen=True)
class Crowd:
    """`raters` of the annotators answer each item; accuracies spread evenly from `worst` to `best`."""

    n_items: int
    n_annotators: int
    n_labels: int
    raters: int
    worst: float = 0.3
    best: float = 0.95


CROWDS = {
    "everyone answers everything": Crowd(60, 4, 3, 4),
    "two of six answer": Crowd(80, 6, 3, 2),
    "two labels": Crowd(80, 5, 2, 3),
    "many labels, few answers": Crowd(50, 8, 7, 3),
    "labels that some never use": Crowd(40, 10, 9, 3),
    "one answer per item": Crowd(30, 3, 4, 1),
    "worse than chance": Crowd(60, 5, 2, 4, worst=0.0, best=0.6),
}


def answers_of(crowd: Crowd, seed: int) -> list[list[int]]:
    """[item, annotator, code] of every answer, by item and annotator; the last label is rare."""
    rng = np.random.default_rng(seed)
    accuracy = np.linspace(crowd.worst, crowd.best, crowd.n_annotators)
    shares = np.linspace(2.0, 0.4, crowd.n_labels)
    rows = []
    for item in range(crowd.n_items):
        truth = rng.choice(crowd.n_labels, p=shares / shares.sum())
        for annotator in sorted(rng.choice(crowd.n_annotators, crowd.raters, replace=False)):
            right = rng.random() < accuracy[annotator]
            rows.append([item, int(annotator), int(truth if right else rng.integers(crowd.n_labels))])
    return rows


def crowdkit_posteriors(answers: list[list[int]]) -> list[list[float]]:
    """P(label | answers) of every item by crowd-kit, both in ascending order."""
    from crowdkit.aggregation import DawidSkene
    from pandas import DataFrame

    fitted = DawidSkene(n_iter=100, tol=1e-5).fit(DataFrame(answers, columns=["task", "worker", "label"]))
    table = fitted.probas_.sort_index(axis=0).sort_index(axis=1)
    return [[float(value) for value in row] for row in table.to_numpy()]


def record() -> None:
    cases: list[dict[str, Any]] = []
    for seed, (name, crowd) in enumerate(CROWDS.items()):
        answers = answers_of(crowd, seed)
        posteriors = [[round(value, 12) for value in row] for row in crowdkit_posteriors(answers)]
        cases.append({"name": name, "answers": answers, "posteriors": posteriors})
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]\n", encoding="utf-8")


if __name__ == "__main__":
    record()
