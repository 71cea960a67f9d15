"""Held-out metrics from nothing but predictions.jsonl and the split files, by scikit-learn and scipy."""

from __future__ import annotations

import json
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
            values = SCORES[scheme["kind"]](targets, said)
            found |= {f"{split}_{name}": float(value) for name, value in values.items()}
            found[f"{split}_coverage"] = len(targets.keys() & said.keys()) / len(targets)
    return found


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def nominal(targets: dict[str, Any], said: dict[str, Any]) -> dict[str, float]:
    truth = list(targets.values())
    answers = [said.get(item, {}).get("label", MISSING) for item in targets]
    labels = sorted(set(truth))
    macro_f1 = metrics.f1_score(truth, answers, labels=labels, average="macro", zero_division=0)
    return {"macro_f1": macro_f1, "accuracy": metrics.accuracy_score(truth, answers)}


def ordinal(targets: dict[str, Any], said: dict[str, Any]) -> dict[str, float]:
    truth = list(targets.values())
    answers = [said[item]["label"] for item in targets]
    return {"accuracy": metrics.accuracy_score(truth, answers)}


def multilabel(targets: dict[str, Any], said: dict[str, Any]) -> dict[str, float]:
    answers = [said[item]["labels"] for item in targets]
    coder = MultiLabelBinarizer().fit([*targets.values(), *answers])
    truth, guess = coder.transform(targets.values()), coder.transform(answers)
    return {
        "micro_f1": metrics.f1_score(truth, guess, average="micro", zero_division=0),
        "subset_accuracy": metrics.accuracy_score(truth, guess),
    }


def continuous(targets: dict[str, Any], said: dict[str, Any]) -> dict[str, float]:
    truth = np.array(list(targets.values()), dtype=float)
    answers = np.array([said[item]["value"] for item in targets], dtype=float)
    found = {
        "mae": metrics.mean_absolute_error(truth, answers),
        "rmse": metrics.root_mean_squared_error(truth, answers),
    }
    if len(set(truth)) > 1 and len(set(answers)) > 1:
        found["spearman"] = stats.spearmanr(truth, answers).statistic
    return found


SCORES = {"nominal": nominal, "ordinal": ordinal, "multilabel": multilabel, "continuous": continuous}
