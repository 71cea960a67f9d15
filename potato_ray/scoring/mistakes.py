"""The held-out mistakes that a person wants to look at, and what everybody said of those items.

`worst_of` picks them while a split is scored; `write_mistakes` leaves them in the run's folder, in words
and cut to a size that a page can show. The file names annotators, so it is for the server alone.
"""

from __future__ import annotations

import heapq
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from potato_ray.bundle.held_out_answers import Answers, read_held_out_answers
from potato_ray.bundle.reading import read_rows
from potato_ray.job.folder import write_json
from potato_ray.scoring import boxes, ranking, spans, text
from potato_ray.scoring.wording import in_words, shorten
from potato_ray.trainers import kinds
from potato_ray.trainers.value_range import finite_number

VERSION = 1
MAX_MISTAKES = 50
"""The most of a split."""

TEXT_CHARS = 500
NAME_CHARS = 80
MOST_ANNOTATORS = 12
MAX_BYTES = 1 << 20


@dataclass(frozen=True)
class Mistake:
    """A wrong prediction of a held-out item; `error` is how wrong it is, in the kind's own measure.

    `nearest_similarity` is how like a train item the item is (0..1), where the trainer tells it.
    """

    instance_id: str
    target: Any
    predicted: Any
    confidence: float | None
    error: float
    nearest_similarity: float | None = None


def errors_of(
    kind: str, scheme: Mapping[str, Any], truth: Sequence[Any], answers: Sequence[Any]
) -> list[float]:
    """How wrong each answer is; 0 for a right one.

    The distance for numbers; false and missed parts for spans and shapes; 1 - tau for rankings (0 to 2);
    what lacks to a token F1 of 1 for texts that differ; else 1.
    """
    if kind == kinds.CONTINUOUS:
        return [_distance(*pair) for pair in zip(truth, answers, strict=True)]
    if kind in (kinds.SPAN, kinds.GEOMETRY):
        measure: Any = spans if kind == kinds.SPAN else boxes
        return [float(false + missed) for _, false, missed in measure.per_item(truth, answers, scheme)]
    if kind == kinds.RANKING:
        return [float(counts - tau) for tau, counts in ranking.per_item(truth, answers, scheme)]
    if kind == kinds.TEXT:
        return [_text_error(*pair) for pair in zip(truth, answers, strict=True)]
    if kind == kinds.MULTILABEL:
        return [float(not _same_labels(*pair)) for pair in zip(truth, answers, strict=True)]
    return [float(answer != target) for target, answer in zip(truth, answers, strict=True)]


def _distance(target: Any, answer: Any) -> float:
    number = finite_number(answer)
    return float("inf") if number is None else abs(float(target) - number)


def _text_error(target: Any, answer: Any) -> float:
    if text.metrics([target], [answer], {})["exact_match"] == 1.0:
        return 0.0
    found = text.token_f1(str(target), answer) if isinstance(answer, str) else 0.0
    # The same words in another order, or another case, are no match either.
    return max(1.0 - found, 1e-6)


def _same_labels(target: Any, answer: Any) -> bool:
    return isinstance(answer, list | tuple) and set(map(str, answer)) == set(map(str, target))


def worst_of(
    kind: str,
    scheme: Mapping[str, Any],
    predicted: Sequence[tuple[str, Any, Any, float | None]],
    most: int = MAX_MISTAKES,
) -> tuple[list[Mistake], int]:
    """The worst of the `predicted` items (id, target, answer, confidence), and how many are wrong.

    The most confident first, those without a confidence after them by their error; of numbers, which are
    hardly ever met exactly, the largest errors first. At most `most` are given.
    """
    errors = errors_of(kind, scheme, [row[1] for row in predicted], [row[2] for row in predicted])
    wrong = [Mistake(*row, error) for row, error in zip(predicted, errors, strict=True) if error > 0]
    key = _by_error if kind == kinds.CONTINUOUS else _by_confidence
    return heapq.nsmallest(most, wrong, key=key), len(wrong)


def _by_confidence(mistake: Mistake) -> tuple[bool, float, float]:
    return mistake.confidence is None, -(mistake.confidence or 0.0), -mistake.error


def _by_error(mistake: Mistake) -> tuple[bool, float, float]:
    return False, 0.0, -mistake.error


# --- the file -------------------------------------------------------------------------------------


def write_mistakes(
    path: Path,
    bundle: Path,
    answers: Path,
    scheme: str,
    kind: str,
    splits: Mapping[str, tuple[Sequence[Mistake], int]],
) -> None:
    """Write the mistakes of each split, (the worst, how many there are), to `path`, atomically.

    `answers` is the file of held_out_answers; without it nobody is named. The file is at most MAX_BYTES
    long: of lists that are longer still when their texts are cut, the end goes.
    """
    said = read_held_out_answers(
        answers, {each.instance_id for worst, _ in splits.values() for each in worst}
    )
    body: dict[str, Any] = {"v": VERSION, "scheme": scheme, "kind": kind, "splits": {}}
    for split, (worst, n_wrong) in splits.items():
        texts = _texts(bundle, split, {each.instance_id for each in worst})
        rows = [_row(kind, each, texts.get(each.instance_id), said.get(each.instance_id)) for each in worst]
        body["splits"][split] = {"n_wrong": n_wrong, "mistakes": rows}
    write_json(path, _within(body, MAX_BYTES))


def _within(body: dict[str, Any], most_bytes: int) -> dict[str, Any]:
    while len(json.dumps(body, indent=1)) > most_bytes:
        for split in body["splits"].values():
            rows = split["mistakes"]
            split["mistakes"] = rows[: len(rows) // 2]
    return body


def _texts(bundle: Path, split: str, items: set[str]) -> dict[str, str]:
    """The text of the first row of each item."""
    found: dict[str, str] = {}
    for row in read_rows(bundle, split) if items else ():
        if row["instance_id"] in items:
            found.setdefault(row["instance_id"], str(row.get("text") or ""))
    return found


def _row(kind: str, mistake: Mistake, shown: str | None, said: Answers | None) -> dict[str, Any]:
    shown, said = shown or "", said or {}
    return {
        "instance_id": mistake.instance_id,
        "text": shorten(shown, TEXT_CHARS),
        "human": in_words(kind, mistake.target, shown),
        "predicted": in_words(kind, mistake.predicted, shown),
        "confidence": mistake.confidence,
        "nearest_similarity": mistake.nearest_similarity,
        "error": mistake.error if kind == kinds.CONTINUOUS and finite_number(mistake.error) else None,
        "answers": [
            {"annotator": shorten(name, NAME_CHARS), "answer": in_words(kind, answer, shown)}
            for name, answer in islice(said.items(), MOST_ANNOTATORS)
        ],
        "n_more_answers": max(0, len(said) - MOST_ANNOTATORS),
    }
