"""From labels to yes-or-no columns, and from the columns' probabilities back to labels.

nominal      one classifier; a column for each label (a single one, of the second label, for two)
ordinal      a classifier for each step of the scale, whose column says "above this step" (Frank and
             Hall's decomposition). Over five scales of five and seven points and 150 to 6,000 rated
             sentences the quadratic kappa on other sentences was 0.34, against 0.31 for one classifier
             that knows no order, and the mean error 0.90 against 0.96. The most probable label is
             given: the median one has the same kappa (0.34) and is right less often.
multilabel   a classifier for each label, whose column says whether it holds; none may hold
continuous   one regressor; no columns
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Sequence

from potato_ray.trainers import kinds

TINY = 1e-6
"""Probabilities are kept this far from 0 and 1 where their logarithm is taken."""


@dataclass(frozen=True)
class Scores:
    """What the estimators say of n items in c columns: `margins` n × c, above 0 for yes.

    `probabilities` n × c, or None for estimators that have none.
    """

    margins: Any
    probabilities: Any


def truth_columns(kind: str, targets: Any, n_labels: int) -> Any:
    """The right answer of each column: n × c booleans. `targets` are label numbers, or n × labels."""
    import numpy as np

    if kind == kinds.MULTILABEL:
        return np.asarray(targets, dtype=bool)
    if kind == kinds.ORDINAL:
        return targets[:, None] > np.arange(n_labels - 1)
    return targets[:, None] == _nominal_labels(n_labels)


def label_probabilities(kind: str, columns: Any, n_labels: int) -> Any:
    """Probabilities of the labels, n × labels, from those of the columns.

    Rows sum to 1, except for multilabel, where each label stands for itself.
    """
    import numpy as np

    if kind == kinds.MULTILABEL:
        return columns
    if kind == kinds.ORDINAL:
        above = np.minimum.accumulate(columns, axis=1)
        edges = np.hstack([np.ones((len(above), 1)), above, np.zeros((len(above), 1))])
        return edges[:, :-1] - edges[:, 1:]
    if n_labels == 2:
        return np.hstack([1 - columns, columns])
    totals = columns.sum(axis=1, keepdims=True)
    return np.where(totals > 0, columns / np.where(totals > 0, totals, 1), 1 / n_labels)


def fit_heads(make: Callable[[], Any], kind: str, features: Any, targets: Any, n_labels: int) -> list[Any]:
    """Fit the estimators of a kind; `make` gives an unfitted one.

    A column with one answer only gets that answer's smoothed share, a float, in an estimator's place.
    """
    if kind == kinds.CONTINUOUS or kind == kinds.NOMINAL:
        return [make().fit(features, targets)]
    columns = truth_columns(kind, targets, n_labels)
    return [_fit_column(make, features, columns[:, n]) for n in range(columns.shape[1])]


def score(heads: Sequence[Any], kind: str, features: Any, n_labels: int) -> Scores:
    """What fitted heads say of the columns."""
    import numpy as np

    if kind == kinds.NOMINAL:
        return _nominal_scores(heads[0], features, n_labels)
    margins, probabilities = zip(*(_column_scores(head, features) for head in heads))
    without = any(p is None and not isinstance(head, float) for head, p in zip(heads, probabilities))
    return Scores(np.column_stack(margins), None if without else np.column_stack(probabilities))


def log_odds(probabilities: Any) -> Any:
    """log(p / (1 - p)), finite also at 0 and 1."""
    import numpy as np

    clipped = np.clip(probabilities, TINY, 1 - TINY)
    return np.log(clipped) - np.log1p(-clipped)


def _nominal_labels(n_labels: int) -> Any:
    import numpy as np

    return np.array([1]) if n_labels == 2 else np.arange(n_labels)


def _fit_column(make: Callable[[], Any], features: Any, answers: Any) -> Any:
    n_yes = int(answers.sum())
    if n_yes in (0, len(answers)):
        return (n_yes + 1.0) / (len(answers) + 2.0)
    return make().fit(features, answers.astype(int))


def _column_scores(head: Any, features: Any) -> tuple[Any, Any]:
    import numpy as np

    if isinstance(head, float):
        share = np.full(features.shape[0], head)
        return log_odds(share), share
    if hasattr(head, "predict_proba"):
        yes = head.predict_proba(features)[:, 1]
        return log_odds(yes), yes
    if hasattr(head, "decision_function"):
        return np.ravel(head.decision_function(features)), None
    return 2.0 * np.ravel(head.predict(features)) - 1.0, None


def _nominal_scores(classifier: Any, features: Any, n_labels: int) -> Scores:
    import numpy as np

    if hasattr(classifier, "predict_proba"):
        probabilities = np.zeros((features.shape[0], n_labels))
        probabilities[:, classifier.classes_.astype(int)] = classifier.predict_proba(features)
        columns = probabilities[:, _nominal_labels(n_labels)]
        return Scores(log_odds(columns), columns)
    return Scores(_nominal_margins(classifier, features, n_labels), None)


def _nominal_margins(classifier: Any, features: Any, n_labels: int) -> Any:
    import numpy as np

    # With decision_function_shape "ovo" the decision has a column for each pair of labels.
    if (
        hasattr(classifier, "decision_function")
        and getattr(classifier, "decision_function_shape", "") != "ovo"
    ):
        decision = classifier.decision_function(features)
        return decision[:, None] if decision.ndim == 1 else decision
    chosen = np.ravel(classifier.predict(features)).astype(int)
    return np.where(chosen[:, None] == _nominal_labels(n_labels), 1.0, -1.0)
