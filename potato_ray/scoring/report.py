"""A run's held-out scores: every split, the headline, and the pictures."""

from __future__ import annotations

import json
from collections.abc import Mapping, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from potato_ray.bundle.reading import read_labelled, read_manifest, targets_of
from potato_ray.bundle.split_names import HELD_OUT
from potato_ray.errors import RunFailed
from potato_ray.scoring import mistakes, pictures
from potato_ray.scoring.measures import MEASURES
from potato_ray.scoring.split_scores import Prediction, SplitScores, answer_of, score_split
from potato_ray.trainers.value_range import finite_number

NOT_SCORED = "not scored"
FEW_ITEMS = 30
"""A score on fewer items than these comes with a warning."""


@dataclass(frozen=True)
class Headline:
    """The number that stands for a run: the main metric on one held-out split.

    `low` and `high` are its 95 % bootstrap interval, or None for the reason in `interval_note` (else ""):
    without them the score is not called better than anything. `baseline` is the score of a constant answer
    fitted on the train split, `previous` the same metric of the previous run. `comparable` is False when
    held-out items were moved into train, or the study was split in another way before.
    """

    metric: str
    split: str
    value: float
    n_items: int
    lower_is_better: bool
    low: float | None = None
    high: float | None = None
    interval_note: str = ""
    baseline: float | None = None
    previous: float | None = None
    comparable: bool = True


@dataclass(frozen=True)
class RunScores:
    """All scores of a run. `metrics` are flat, their names carry the split (`val_macro_f1`).

    `blind` is the headline on the held-out items that were labelled without a pre-label; None where
    there are no others, or none of those. It may be of another split than the headline, where all items
    of that one had a pre-label. `only_blind`: those items alone make all scores. `selects_on_val`: the
    trainer chose its best checkpoint on val, which is therefore no held-out split in full.
    """

    scheme: str
    kind: str
    headline: Headline | None
    metrics: Mapping[str, float]
    blind: Headline | None = None
    splits: Mapping[str, SplitScores] = field(default_factory=dict)
    note: str = ""
    only_blind: bool = False
    selects_on_val: bool = False

    def as_json(self) -> dict[str, Any]:
        """Plain JSON values, without NaN and without the mistakes, which have a file of their own."""
        body = asdict(self)
        for split, scores in self.splits.items():
            body["splits"][split]["coverage"] = scores.coverage
            del body["splits"][split]["mistakes"]
        return body


def score_run(
    bundle: Path,
    predictions: Path,
    *,
    selects_on_val: bool,
    seed: int = 0,
    previous: Mapping[str, float] | None = None,
    scored_as: str | None = None,
    same_splits: bool = True,
    blind: str = "report",
) -> RunScores:
    """Score a run's predictions.jsonl on the labelled val and test items of its bundle, by item.

    A labelled item without a prediction counts as wrong. `previous` are an earlier run's flat metrics,
    `scored_as` the kind of the score where it is not that of the scheme. `same_splits` False: the study
    was split in another way before. `blind` (off, report, headline): whether items labelled without a
    pre-label get a second score, or the only one. Baselines are fitted on the train targets alone.
    """
    manifest = read_manifest(bundle)
    scheme = {**manifest["schemas"][0], **({"kind": scored_as} if scored_as else {})}
    said = read_predictions(predictions, scheme["name"], scheme["kind"])
    scorer = _Scorer(bundle, scheme, said, seed)
    seeded = scorer.seeded() if blind != "off" else frozenset()
    comparable = same_splits and not _moved(manifest)

    def headline_of(splits: Mapping[str, SplitScores]) -> Headline | None:
        return choose_headline(splits, scheme["kind"], selects_on_val, previous or {}, comparable)

    splits = scorer.splits(without=seeded if blind == "headline" else frozenset())
    headline = headline_of(splits)
    return RunScores(
        scheme=scheme["name"],
        kind=scheme["kind"],
        headline=headline,
        metrics=_flat(splits),
        blind=headline_of(scorer.splits(without=seeded)) if seeded and blind == "report" else None,
        splits=splits,
        note="" if headline else _why_not(splits, scheme["kind"]),
        only_blind=bool(seeded) and blind == "headline",
        selects_on_val=selects_on_val,
    )


class _Scorer:
    """Scores the held-out splits of one bundle, all items or some."""

    def __init__(
        self, bundle: Path, scheme: Mapping[str, Any], said: Mapping[str, Prediction], seed: int
    ) -> None:
        self.scheme, self.said, self.seed = scheme, said, seed
        self.train = list(targets_of(bundle, "train", scheme["name"]).values())
        self.held_out = {split: read_labelled(bundle, split, scheme["name"]) for split in HELD_OUT}

    def seeded(self) -> frozenset[str]:
        """The held-out items whose label began as a pre-label."""
        return frozenset[str]().union(*(each.seeded for each in self.held_out.values()))

    def splits(self, without: Set[str]) -> dict[str, SplitScores]:
        """The scores of each split that has items left."""
        found: dict[str, SplitScores] = {}
        for number, split in enumerate(HELD_OUT):
            kept = {
                item: target for item, target in self.held_out[split].targets.items() if item not in without
            }
            if kept:
                rng = np.random.default_rng([self.seed, number])
                found[split] = score_split(kept, self.said, self.scheme, self.train, rng)
        return found


def read_predictions(path: Path, scheme: str, kind: str) -> dict[str, Prediction]:
    """The predictions of one scheme by item; of several for an item the last counts.

    One without an answer is none. Raises RunFailed (no_result) for a line that is no prediction.
    """
    found: dict[str, Prediction] = {}
    with path.open(encoding="utf-8", newline="\n") as handle:
        for number, line in enumerate(handle, start=1):
            try:
                row = json.loads(line)
                if row["schema_name"] != scheme:
                    continue
                answer = answer_of(kind, row["payload"])
                if answer is not None:
                    nearest = _share(row["payload"].get("nearest_similarity"))
                    found[row["instance_id"]] = Prediction(answer, _share(row.get("confidence")), nearest)
            except (ValueError, KeyError, TypeError, AttributeError):
                raise RunFailed(
                    f"Line {number} of predictions.jsonl is no prediction.",
                    code="no_result",
                    next_step="Start the run again; if it happens again, look at the worker's stderr.log.",
                ) from None
    return found


def _share(value: Any) -> float | None:
    """A confidence or a similarity in 0..1; None for what is none (NaN, a text, a boolean)."""
    number = finite_number(value)
    return None if number is None else min(1.0, max(0.0, number))


def choose_headline(
    splits: Mapping[str, SplitScores],
    kind: str,
    selects_on_val: bool,
    previous: Mapping[str, float],
    comparable: bool,
) -> Headline | None:
    """The main metric on the first of val and test with items; test first if the trainer chose on val."""
    measure = MEASURES[kind]
    order = reversed(HELD_OUT) if selects_on_val else HELD_OUT
    split = next((name for name in order if name in splits), None)
    if split is None or measure.MAIN not in splits[split].metrics:
        return None
    scores = splits[split]
    low, high = scores.interval or (None, None)
    return Headline(
        metric=measure.MAIN,
        split=split,
        value=scores.metrics[measure.MAIN],
        n_items=scores.n_items,
        lower_is_better=measure.LOWER_IS_BETTER,
        low=low,
        high=high,
        interval_note=scores.interval_note,
        baseline=scores.baseline,
        previous=previous.get(f"{split}_{measure.MAIN}"),
        comparable=comparable,
    )


def few_items_warning(headline: Headline | None) -> str | None:
    """A sentence on a headline that rests on few items, and what follows; None where there are enough."""
    if headline is None or headline.n_items >= FEW_ITEMS:
        return None
    count = headline.n_items
    rests = f"The held-out score rests on {count} item{'' if count == 1 else 's'}"
    if headline.interval_note:
        why = f"has no interval ({headline.interval_note})"
        return (
            f"{rests} and {why}, so nothing tells whether it is better than the baseline. Label more items."
        )
    return f"{rests}, so its interval is wide. Label more items for a surer one."


def _moved(manifest: Mapping[str, Any]) -> int:
    """How many held-out items were moved into train."""
    forced = (manifest.get("stats") or {}).get("forced_train") or {}
    return int(forced.get("moved", 0))


def _flat(splits: Mapping[str, SplitScores]) -> dict[str, float]:
    metrics: dict[str, float] = {}
    for split, scores in splits.items():
        metrics |= {f"{split}_{name}": value for name, value in scores.metrics.items()}
        metrics[f"{split}_coverage"] = scores.coverage
        if scores.ece is not None:
            metrics[f"{split}_ece"] = scores.ece
    return metrics


def _why_not(splits: Mapping[str, SplitScores], kind: str) -> str:
    if not splits:
        return NOT_SCORED
    return f"{NOT_SCORED}: {MEASURES[kind].MAIN} is undefined where all answers are the same"


def write_mistakes(scores: RunScores, bundle: Path, answers: Path, path: Path) -> None:
    """Leave the worst mistakes of each split at `path`, with what each annotator said (file `answers`)."""
    splits = {split: (each.mistakes, each.n_wrong) for split, each in scores.splits.items()}
    mistakes.write_mistakes(path, bundle, answers, scores.scheme, scores.kind, splits)


def write_pictures(scores: RunScores, folder: Path) -> list[Path]:
    """Draw each split's confusion matrix and reliability diagram into `folder`; the files' paths."""
    written = []
    for split, each in scores.splits.items():
        title = f"{scores.scheme}, {split}: {each.n_items} items"
        if each.confusion is not None:
            svg = pictures.confusion_matrix(title=title, **each.confusion)
            written.append(pictures.write(folder, f"{split}_confusion_matrix.svg", svg))
        if each.ece is not None:
            svg = pictures.reliability(each.bins, each.ece, title=title)
            written.append(pictures.write(folder, f"{split}_reliability.svg", svg))
    return written
