"""Held-out metrics from nothing but predictions.jsonl and the split files, by scikit-learn and scipy."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats
from sklearn import metrics
from sklearn.preprocessing import MultiLabelBinarizer

from potato_ray.job.folder import JobFolder

MISSING = "\0no prediction"


def independent_metrics(folder: JobFolder) -> dict[str, float]:
    """The main metrics of a run's first scheme, for each split that has items; names carry the split."""
    manifest = json.loads((folder.bundle / "manifest.json").read_text("utf-8"))
    scheme = manifest["schemas"][0]
    said = {row["instance_id"]: row["payload"] for row in rows(folder.predictions)}
    found: dict[str, float] = {}
    for split in ("val", "test"):
        targets = {
            row["instance_id"]: row["targets"][scheme["name"]]
            for row in rows(folder.bundle / f"{split}.jsonl")
        }
        if targets:
            values = SCORES[scheme["kind"]](targets, said, scheme)
            found |= {f"{split}_{name}": float(value) for name, value in values.items() if value == value}
            found[f"{split}_coverage"] = len(targets.keys() & said.keys()) / len(targets)
    return found


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def nominal(targets: dict[str, Any], said: dict[str, Any], scheme: dict[str, Any]) -> dict[str, float]:
    truth = list(targets.values())
    answers = [said.get(item, {}).get("label", MISSING) for item in targets]
    labels = sorted(set(truth))
    return {
        "macro_f1": metrics.f1_score(truth, answers, labels=labels, average="macro", zero_division=0),
        "accuracy": metrics.accuracy_score(truth, answers),
        "cohen_kappa": kappa(truth, answers),
    }


def ordinal(targets: dict[str, Any], said: dict[str, Any], scheme: dict[str, Any]) -> dict[str, float]:
    scale = scheme["configured_labels"]
    truth = [scale.index(label) for label in targets.values()]
    answers = [scale.index(said[item]["label"]) for item in targets]
    steps = list(range(len(scale)))
    return {
        "quadratic_kappa": kappa(truth, answers, labels=steps, weights="quadratic"),
        "accuracy": metrics.accuracy_score(truth, answers),
        "mae": metrics.mean_absolute_error(truth, answers),
        "spearman": correlation(stats.spearmanr, truth, answers),
    }


def multilabel(targets: dict[str, Any], said: dict[str, Any], scheme: dict[str, Any]) -> dict[str, float]:
    answers = [said[item]["labels"] for item in targets]
    coder = MultiLabelBinarizer().fit([*targets.values(), *answers])
    truth, guess = coder.transform(targets.values()), coder.transform(answers)
    used = np.flatnonzero(truth.any(0))
    return {
        "micro_f1": metrics.f1_score(truth, guess, average="micro", zero_division=0),
        "macro_f1": metrics.f1_score(truth, guess, labels=used, average="macro", zero_division=0),
        "subset_accuracy": metrics.accuracy_score(truth, guess),
        "jaccard": metrics.jaccard_score(truth, guess, average="samples", zero_division=1),
    }


def continuous(targets: dict[str, Any], said: dict[str, Any], scheme: dict[str, Any]) -> dict[str, float]:
    truth = np.array(list(targets.values()), dtype=float)
    answers = np.array([said[item]["value"] for item in targets], dtype=float)
    return {
        "mae": metrics.mean_absolute_error(truth, answers),
        "rmse": metrics.root_mean_squared_error(truth, answers),
        "r2": metrics.r2_score(truth, answers) if np.ptp(truth) > 0 else math.nan,
        "pearson": correlation(stats.pearsonr, truth, answers),
        "spearman": correlation(stats.spearmanr, truth, answers),
    }


def kappa(truth: list[Any], answers: list[Any], **options: Any) -> float:
    """Cohen's kappa, NaN where everybody always says the same."""
    if len({*truth, *answers}) < 2:
        return math.nan
    return float(metrics.cohen_kappa_score(truth, answers, **options))


def correlation(function: Any, truth: Any, answers: Any) -> float:
    """A correlation, NaN where one side is constant."""
    if len(set(truth)) < 2 or len(set(answers)) < 2:
        return math.nan
    return float(function(truth, answers).statistic)


SCORES = {"nominal": nominal, "ordinal": ordinal, "multilabel": multilabel, "continuous": continuous}
