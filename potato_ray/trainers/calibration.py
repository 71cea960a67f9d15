"""Probabilities that mean what they say, corrected only when that is measured to help.

The estimators are fitted anew on parts of the train rows and asked about the rest. On these
out-of-fold scores a curve for each column is fitted and judged, again on rows that it was not fitted
on. It is kept when it lowers the log loss by more than twice the standard error of the difference.
Estimators without probabilities of their own (LinearSVC) get the curve whenever it can be fitted.

The features are learnt once, on all train rows, and not anew in each part: that lets the left-out texts
contribute to the weights of words, never to the labels, and costs a tenth. Measured on review sentences,
learning them anew moved the out-of-fold log loss by 0.01 at 100 rows, 0.007 at 1,000 and 0.001 at 10,000,
now up and now down; both sides of the comparison share it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Callable, Iterator, Mapping, Sequence

from potato_ray.trainers import heads, kinds
from potato_ray.trainers.base import FitContext

MIN_ROWS = 50
MIN_PER_LABEL = 3
MIN_ROWS_ISOTONIC = 1000
ENOUGH_ROWS = 2000
"""Parts are left out one after the other until this many rows have out-of-fold scores."""

METRIC = "log_loss"
SIGMOID = "sigmoid"
ISOTONIC = "isotonic"
IDENTITY = "identity"


@dataclass(frozen=True)
class Curve:
    """One column's way from margin to probability.

    sigmoid: x = (slope,), y = (intercept,); isotonic: the steps' margins and probabilities; identity:
    the margin is the log-odds already, x and y are empty.
    """

    method: str
    x: Any
    y: Any

    def apply(self, margins: Any) -> Any:
        """Probabilities of n margins."""
        import numpy as np
        from scipy.special import expit

        if self.method == ISOTONIC:
            return np.interp(margins, self.x, self.y)
        return expit(self.x[0] * margins + self.y[0] if self.method == SIGMOID else margins)


@dataclass(frozen=True)
class Calibration:
    """The curves that were kept (none: empty), and the report that calibration.json holds.

    `before` and `after` are mean out-of-fold log losses; `before` is None for estimators without
    probabilities, both are None when nothing could be measured.
    """

    method: str
    reason: str
    curves: tuple[Curve, ...] = ()
    before: float | None = None
    after: float | None = None
    n_rows: int = 0

    def as_json(self) -> dict[str, Any]:
        return {
            "applied": bool(self.curves),
            "method": self.method,
            "reason": self.reason,
            "metric": METRIC,
            "before": self.before,
            "after": self.after,
            "n_rows": self.n_rows,
        }


@dataclass(frozen=True)
class Problem:
    """What is learnt: `targets` are n label numbers, or n × labels for multilabel."""

    kind: str
    labels: Sequence[str]
    targets: Any

    @property
    def n_labels(self) -> int:
        return len(self.labels)

    def part(self, rows: Any) -> Problem:
        return Problem(self.kind, self.labels, self.targets[rows])


def skipped(reason: str) -> Calibration:
    """No calibration, and why."""
    return Calibration(method="none", reason=reason)


def why_not(problem: Problem) -> str:
    """Why these rows cannot be calibrated on, or ""."""
    import numpy as np

    n_rows = len(problem.targets)
    if n_rows < MIN_ROWS:
        return f"{n_rows} train rows; {MIN_ROWS} are needed to tell whether calibration helps"
    if problem.kind != kinds.MULTILABEL:
        counts = np.bincount(problem.targets, minlength=problem.n_labels)
        if counts.min() < MIN_PER_LABEL:
            rarest = problem.labels[int(counts.argmin())]
            return f"label '{rarest}' has {counts.min()} train rows; each needs {MIN_PER_LABEL}"
    return ""


def calibrate(make: Callable[[], Any], features: Any, problem: Problem, seed: int) -> Calibration:
    """Decide on a calibration; `features` is n × f, `make` gives an unfitted estimator."""
    reason = why_not(problem)
    if reason:
        return skipped(reason)
    rows, scores = _out_of_fold(make, features, problem, seed)
    return choose(problem.part(rows), scores, seed)


def decide(
    context: FitContext,
    make: Callable[[], Any],
    features: Any,
    targets: Any,
    labels: Sequence[str],
    what: str,
) -> Calibration:
    """The calibration of a run, told in its log; `what` names its items: texts, molecules."""
    if context.scheme.kind == kinds.CONTINUOUS:
        return skipped("numbers have no probabilities")
    if not context.params["calibrate"]:
        return skipped("calibrate is false")
    context.reporter.status("calibrating", f"comparing probabilities on {what} left out of the fit")
    try:
        decided = calibrate(make, features, Problem(context.scheme.kind, labels, targets), context.seed)
    except ValueError as failure:  # an estimator that fits all rows, but not four fifths of them
        decided = skipped(f"it could not be measured: {failure}")
    verb = f"calibrated ({decided.method})" if decided.curves else "not calibrated"
    context.reporter.log(f"Probabilities {verb}: {decided.reason}.")
    return decided


def choose(problem: Problem, scores: heads.Scores, seed: int) -> Calibration:
    """The calibration that the out-of-fold `scores` of `problem`'s rows speak for."""
    methods = [SIGMOID, ISOTONIC] if len(problem.targets) >= MIN_ROWS_ISOTONIC else [SIGMOID]
    losses = {method: _losses(problem, _cross_fitted(method, problem, scores, seed)) for method in methods}
    method = min(losses, key=lambda name: float(losses[name].mean()))
    after = losses[method]
    curves = _fit_curves(method, problem, scores)
    if scores.probabilities is None:
        reason = "the estimator gives no probabilities of its own"
        return Calibration(method, reason, curves, None, float(after.mean()), len(after))
    before = _losses(problem, scores.probabilities)
    if _clearly_lower(after, before):
        reason = "it lowers the log loss on items left out of the fit"
    else:
        reason, curves = "it does not clearly lower the log loss on items left out of the fit", ()
    return Calibration(method, reason, curves, float(before.mean()), float(after.mean()), len(after))


def apply(curves: Sequence[Curve], scores: heads.Scores) -> Any:
    """Probabilities of the columns, n × c, or None when there are neither curves nor probabilities."""
    import numpy as np

    if not curves:
        return scores.probabilities
    return np.column_stack([curve.apply(scores.margins[:, n]) for n, curve in enumerate(curves)])


def curves_state(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """What has to be saved."""
    return [{"method": curve.method, "x": curve.x, "y": curve.y} for curve in curves]


def curves_from_state(state: Sequence[Mapping[str, Any]]) -> tuple[Curve, ...]:
    """The curves that `state` described."""
    return tuple(Curve(curve["method"], curve["x"], curve["y"]) for curve in state)


def _out_of_fold(
    make: Callable[[], Any], features: Any, problem: Problem, seed: int
) -> tuple[Any, heads.Scores]:
    import numpy as np

    parts, rows = [], []
    for fitted, left_out in _folds(problem, seed):
        fold = problem.part(fitted)
        estimators = heads.fit_heads(make, problem.kind, features[fitted], fold.targets, problem.n_labels)
        parts.append(heads.score(estimators, problem.kind, features[left_out], problem.n_labels))
        rows.append(left_out)
        if sum(map(len, rows)) >= ENOUGH_ROWS:
            break
    margins = np.vstack([part.margins for part in parts])
    probabilities = None
    if all(part.probabilities is not None for part in parts):
        probabilities = np.vstack([part.probabilities for part in parts])
    return np.concatenate(rows), heads.Scores(margins, probabilities)


def _folds(problem: Problem, seed: int) -> Iterator[tuple[Any, Any]]:
    import numpy as np
    from sklearn.model_selection import KFold, StratifiedKFold

    n_rows = len(problem.targets)
    if problem.kind == kinds.MULTILABEL:
        yield from KFold(5, shuffle=True, random_state=seed).split(np.zeros(n_rows))
        return
    n_folds = int(min(5, np.bincount(problem.targets).min()))
    folds = StratifiedKFold(n_folds, shuffle=True, random_state=seed)
    yield from folds.split(np.zeros(n_rows), problem.targets)


def _cross_fitted(method: str, problem: Problem, scores: heads.Scores, seed: int) -> Any:
    """The columns' probabilities, each row by curves that were fitted without it."""
    import numpy as np
    from sklearn.model_selection import KFold

    columns = np.empty_like(scores.margins, dtype=float)
    for fitted, left_out in KFold(5, shuffle=True, random_state=seed).split(columns):
        part = heads.Scores(scores.margins[fitted], _rows_of(scores.probabilities, fitted))
        curves = _fit_curves(method, problem.part(fitted), part)
        columns[left_out] = apply(curves, heads.Scores(scores.margins[left_out], None))
    return columns


def _rows_of(values: Any, rows: Any) -> Any:
    return None if values is None else values[rows]


def _fit_curves(method: str, problem: Problem, scores: heads.Scores) -> tuple[Curve, ...]:
    truth = heads.truth_columns(problem.kind, problem.targets, problem.n_labels)
    has_own = scores.probabilities is not None
    return tuple(
        _fit_curve(method, scores.margins[:, n], truth[:, n], has_own) for n in range(truth.shape[1])
    )


def _fit_curve(method: str, margins: Any, answers: Any, has_own: bool) -> Curve:
    import numpy as np

    n_yes, n_rows = int(answers.sum()), len(answers)
    share = (n_yes + 1.0) / (n_rows + 2.0)
    if min(n_yes, n_rows - n_yes) < MIN_PER_LABEL:
        # Too few to fit anything: trust the estimator where it has a probability, else the share.
        flat = Curve(SIGMOID, np.zeros(1), heads.log_odds(np.array([share])))
        return Curve(IDENTITY, np.zeros(0), np.zeros(0)) if has_own else flat
    if method == ISOTONIC:
        return _isotonic(margins, answers)
    return _sigmoid(margins, answers)


def _sigmoid(margins: Any, answers: Any) -> Curve:
    import numpy as np
    from sklearn.linear_model import LogisticRegression

    fitted = LogisticRegression(C=100.0).fit(margins[:, None], answers)
    slope, intercept = float(fitted.coef_[0, 0]), float(fitted.intercept_[0])
    if slope <= 0:  # a score that speaks against itself is noise: fall back on the share
        slope, intercept = 0.0, float(heads.log_odds(answers.mean()))
    return Curve(SIGMOID, np.array([slope]), np.array([intercept]))


def _isotonic(margins: Any, answers: Any) -> Curve:
    import numpy as np
    from sklearn.isotonic import IsotonicRegression

    # A step at 0 or 1 would claim certainty from a handful of rows.
    least = 1.0 / (len(answers) + 2.0)
    fitted = IsotonicRegression(y_min=least, y_max=1 - least, out_of_bounds="clip")
    fitted.fit(margins, answers.astype(float))
    return Curve(ISOTONIC, np.asarray(fitted.X_thresholds_), np.asarray(fitted.y_thresholds_))


def _losses(problem: Problem, columns: Any) -> Any:
    """The log loss of each row, in nats."""
    import numpy as np

    by_label = heads.label_probabilities(problem.kind, columns, problem.n_labels)
    by_label = np.clip(by_label, heads.TINY, 1 - heads.TINY)
    if problem.kind == kinds.MULTILABEL:
        right = np.where(np.asarray(problem.targets, dtype=bool), by_label, 1 - by_label)
        return -np.log(right).mean(axis=1)
    return -np.log(by_label[np.arange(len(by_label)), problem.targets])


def _clearly_lower(after: Any, before: Any) -> bool:
    import numpy as np

    gain = before - after
    error = float(np.std(gain, ddof=1)) / float(np.sqrt(len(gain)))
    return float(gain.mean()) > 2 * error
