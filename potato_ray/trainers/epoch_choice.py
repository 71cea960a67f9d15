"""How good an epoch is on val: the main metric of the scheme's kind, and the loss where two are alike.

nominal macro_f1, ordinal quadratic_kappa, multilabel micro_f1, continuous mae: as the run is scored
afterwards (scikit-learn's definitions; a worker may be without it).
"""

from __future__ import annotations

from typing import Any

from potato_ray.trainers import kinds
from potato_ray.trainers.text_objective import Objective

MIN_ROWS = 10
"""Of val, with fewer of which the best epoch is chance: the last one is kept then."""
TIE = 1e-6
METRICS = ("macro_f1", "quadratic_kappa", "micro_f1", "mae")


def metric(objective: Objective, outputs: Any, coded: Any) -> tuple[str, float]:
    """(name, value) of the main metric; `outputs` n × outputs, `coded` n targets as train_rows has them."""
    import numpy as np

    if objective.kind == kinds.CONTINUOUS:
        return "mae", float(np.abs(objective.values(outputs) - coded).mean())
    by_label = objective.probabilities(outputs)
    if objective.kind == kinds.MULTILABEL:
        return "micro_f1", _f1(by_label >= 0.5, np.asarray(coded, dtype=bool))
    said, truth = by_label.argmax(axis=1), np.asarray(coded)
    if objective.kind == kinds.ORDINAL:
        return "quadratic_kappa", _kappa(said, truth, len(objective.labels))
    seen = np.unique(truth).tolist()
    return "macro_f1", float(np.mean([_f1(said == label, truth == label) for label in seen]))


def worth(objective: Objective, outputs: Any, coded: Any) -> float:
    """What the best epoch has most of."""
    import numpy as np

    name, value = metric(objective, outputs, coded)
    if name == "mae":
        return -value
    return value - TIE * float(np.mean(objective.log_losses(outputs, coded)))


def _f1(said: Any, truth: Any) -> float:
    right, total = float((said & truth).sum()), float(said.sum() + truth.sum())
    return 2 * right / total if total else 0.0


def _kappa(said: Any, truth: Any, n_labels: int) -> float:
    """Cohen's, weighted by the squared distance; 0 where all are of one label."""
    import numpy as np

    table = np.zeros((n_labels, n_labels))
    np.add.at(table, (truth, said), 1.0)
    steps = np.arange(n_labels)
    weights = (steps[:, None] - steps[None, :]) ** 2
    by_chance = np.outer(table.sum(axis=1), table.sum(axis=0)) / max(len(truth), 1)
    expected = float((weights * by_chance).sum())
    return 1.0 - float((weights * table).sum()) / expected if expected else 0.0
