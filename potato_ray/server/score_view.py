"""A run's held-out score for people: what it is compared with, in words and on one axis."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isclose
from typing import Any

from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.scoring.picture_axes import Axis, nice_axis, unit_axis
from potato_ray.server.wording import number
from potato_ray.server.wording import score as figure

THIS, BASELINE, PREVIOUS, BLIND = "this", "baseline", "previous", "blind"

Object = Mapping[str, Any]


@dataclass(frozen=True)
class Standing:
    """A score on the common axis. `at`, `start`, `end` are places in percent; no interval: no start."""

    kind: str
    name: str
    value: float
    low: float | None
    high: float | None
    at: float
    start: float | None
    end: float | None
    run_id: str = ""


@dataclass(frozen=True)
class Comparison:
    """The score among its like. `ticks` are (place in percent, text); `words` are whole sentences."""

    metric: str
    split: str
    value: float
    low: float | None
    high: float | None
    interval_note: str
    n_items: int
    lower_is_better: bool
    comparable: bool
    standings: tuple[Standing, ...]
    ticks: tuple[tuple[float, str], ...]
    words: tuple[str, ...]


@dataclass(frozen=True)
class _Point:
    """A score before it has a place."""

    kind: str
    name: str
    value: float
    low: float | None = None
    high: float | None = None
    run_id: str = ""


def compare(reader: RegistryReader, run: Run) -> Comparison | None:
    """The headline score beside the baseline and the previous run; None without a score."""
    head = run.scores.get("headline") or run.headline
    if not head or head.get("value") is None:
        return None
    points = list(_points(reader, run, head))
    axis = _axis(points, str(head["metric"]))
    by_kind = {point.kind: point for point in points}
    return Comparison(
        metric=str(head["metric"]),
        split=str(head["split"]),
        value=float(head["value"]),
        low=head.get("low"),
        high=head.get("high"),
        interval_note=str(head.get("interval_note") or ""),
        n_items=int(head.get("n_items") or 0),
        lower_is_better=bool(head.get("lower_is_better")),
        comparable=bool(head.get("comparable", True)),
        standings=tuple(_placed(point, axis) for point in points),
        ticks=tuple((axis.at(tick), axis.tick_text(tick)) for tick in axis.ticks),
        words=(*_words(by_kind, head), *_caveats(run.scores, head)),
    )


def _points(reader: RegistryReader, run: Run, head: Object) -> Iterator[_Point]:
    yield _Point(THIS, "This run", float(head["value"]), head.get("low"), head.get("high"))
    blind = _blind(run.scores)
    # Another split has other items: its score has no place beside this one.
    if blind and blind["split"] == head["split"]:
        name = f"This run, items of {head['split']} labelled blind"
        yield _Point(BLIND, name, float(blind["value"]), blind.get("low"), blind.get("high"))
    if head.get("previous") is not None:
        yield _previous(reader, run, head)
    if head.get("baseline") is not None:
        yield _Point(BASELINE, "Baseline", float(head["baseline"]))


def _blind(scores: Object) -> Object | None:
    """The score on the items that were labelled without a pre-label."""
    blind = scores.get("blind")
    return blind if blind and blind.get("value") is not None else None


def _previous(reader: RegistryReader, run: Run, head: Object) -> _Point:
    """The earlier run's score, with its interval where that run is still known."""
    value = float(head["previous"])
    found = reader.previous_success(run.run_id)
    name = f"{head['split']}_{head['metric']}"
    if found is None or not isclose(found[1].get(name, float("nan")), value):
        return _Point(PREVIOUS, "Previous run", value)
    low, high = _interval(reader.run(found[0]), head)
    return _Point(PREVIOUS, "Previous run", value, low, high, found[0])


def _interval(before: Run, head: Object) -> tuple[float | None, float | None]:
    scores = (before.scores.get("splits") or {}).get(head["split"]) or {}
    interval = scores.get("interval") or (None, None)
    same = (before.headline or {}).get("metric") == head["metric"]
    return (interval[0], interval[1]) if same else (None, None)


def _axis(points: Sequence[_Point], metric: str) -> Axis:
    values = [each for point in points for each in (point.value, point.low, point.high) if each is not None]
    if metric in ("mae", "rmse"):
        return nice_axis([0.0, *values], 0.0, 100.0, 5)
    if min(values) >= 0 and max(values) <= 1:
        return unit_axis(0.0, 100.0)
    return nice_axis([*values, 1.0] if max(values) <= 1 else values, 0.0, 100.0, 5)


def _placed(point: _Point, axis: Axis) -> Standing:
    known = point.low is not None and point.high is not None
    return Standing(
        kind=point.kind,
        name=point.name,
        value=point.value,
        low=point.low,
        high=point.high,
        at=axis.at(point.value),
        start=axis.at(point.low) if known and point.low is not None else None,
        end=axis.at(point.high) if known and point.high is not None else None,
        run_id=point.run_id,
    )


# --- in words -------------------------------------------------------------------------------------


def _words(points: Mapping[str, _Point], head: Object) -> Iterator[str]:
    lower = bool(head.get("lower_is_better"))
    this = points[THIS]
    if this.low is None or this.high is None:
        note = f" ({head['interval_note']})" if head.get("interval_note") else ""
        yield f"The score has no 95 % interval{note}, so nothing can be said about differences."
        return
    if BASELINE in points:
        yield _against_baseline(this, points[BASELINE], lower)
    if not head.get("comparable", True):
        yield (
            "Not directly comparable with earlier runs: other items are held out than before. The run's "
            "warnings say why."
        )
    elif PREVIOUS in points:
        yield _against_previous(this, points[PREVIOUS], lower)
    else:
        yield "No earlier run has this metric on this split."


def _against_baseline(this: _Point, baseline: _Point, lower: bool) -> str:
    verdict = _verdict(this, baseline.value, baseline.value, lower)
    if verdict == 0:
        return "The 95 % interval includes the baseline's score, so it shows no difference from the baseline."
    word = "Better" if verdict > 0 else "Worse"
    return f"{word} than the baseline: the whole 95 % interval is {word.lower()} than the baseline's score."


def _against_previous(this: _Point, previous: _Point, lower: bool) -> str:
    if previous.low is not None and previous.high is not None:
        verdict = _verdict(this, previous.low, previous.high, lower)
        if verdict == 0:
            return (
                "The 95 % intervals of this run and of the previous one overlap, so they alone show no "
                "difference; a small one may still be there."
            )
        word = "Better" if verdict > 0 else "Worse"
        return f"{word} than the previous run: the two 95 % intervals do not overlap."
    verdict = _verdict(this, previous.value, previous.value, lower)
    if verdict == 0:
        return "The previous run's score is within this 95 % interval, which alone shows no difference."
    return (
        "The previous run's score is outside this 95 % interval, but its own interval is not known, so the "
        "two cannot be told apart for certain."
    )


def _caveats(scores: Object, head: Object) -> Iterator[str]:
    """What else to know about the score."""
    split = head["split"]
    if scores.get("selects_on_val") and split == "val":
        yield (
            "The trainer chose its best checkpoint on val, so this score flatters the model; test has no "
            "labelled item that could tell better."
        )
    if scores.get("only_blind"):
        yield f"Only the {_items(head)} of {split} that were labelled with no pre-label in sight are counted."
    blind = _blind(scores)
    if blind and blind["split"] == split:
        yield (
            f"The second score is on the {_items(blind)} of {split} that were labelled with no pre-label in "
            "sight; people tend to accept what they are shown, so it is the stricter one."
        )
    elif blind:
        yield (
            f"No item of {split} was labelled without a pre-label in sight, so this score may flatter the "
            f"model. On the {_items(blind)} of {blind['split']} that were, {blind['metric']} is "
            f"{figure(blind['value'])}{_interval_words(blind)}; those are other items, so the two cannot be "
            "compared."
        )


def _items(head: Object) -> str:
    count = int(head.get("n_items") or 0)
    return f"{number(count)} item{'' if count == 1 else 's'}"


def _interval_words(head: Object) -> str:
    low, high = head.get("low"), head.get("high")
    return "" if low is None or high is None else f" (95 % interval {figure(low)} to {figure(high)})"


MISSING = {
    "ordinal": "each counts as the label farthest from the human's",
    "continuous": "each counts as the end of the range that is farther from the human's answer",
    "multilabel": "each counts as one wrong label",
    "span": "each counts as its spans missed, or as one false span where it has none",
    "geometry": "each counts as its shapes missed, or as one false shape where it has none",
    "ranking": "each counts as -1, the worst order",
}
"""Kind → what an item without a prediction counts as; of all others: as wrong."""


def missing_words(scores: Object) -> Iterator[str]:
    """A sentence for each split with labelled items that got no prediction."""
    for split, each in (scores.get("splits") or {}).items():
        missing = each["n_items"] - each["n_predicted"]
        if missing > 0:
            meaning = MISSING.get(str(scores.get("kind")), "each counts as wrong")
            yield (
                f"{number(missing)} of the {number(each['n_items'])} labelled items of {split} got no "
                f"prediction; {meaning}."
            )


def _verdict(this: _Point, low: float, high: float, lower_is_better: bool) -> int:
    """1 when all of this interval is better than low..high, -1 when all is worse, 0 where they meet."""
    if this.low is None or this.high is None:
        return 0
    above = int(this.low > high) - int(this.high < low)
    return -above if lower_is_better else above
