"""Scores of typed spans of a text: span, error_span, extractive_qa.

All are micro averages over items, and labels must be equal in each:
f1          exact: the same start, end and label
token_f1    over (character, label) pairs: targets hold offsets, no text, so a character is the token
partial_f1  a span earns the share of its characters that the other side's spans of its label cover;
            precision is the mean over predicted spans, recall over human ones (proportional overlap,
            Johansson and Moschitti 2010)

A missing prediction misses all spans of its item; where the item has none it counts as one false span.
So does each predicted span that cannot be read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from potato_ray.scoring import multilabel
from potato_ray.scoring.defined import defined

MAIN = "f1"
LOWER_IS_BETTER = False
METRICS = ("f1", "token_f1", "partial_f1")

# No text is longer; a wild offset must not overflow the sums.
_MAX_OFFSET = 2**31

Span = tuple[int, int, str]


@dataclass(frozen=True)
class Spans:
    """The spans of one item on one side, each once, and how many could not be read."""

    found: frozenset[Span]
    n_unreadable: int = 0

    @property
    def count(self) -> int:
        return len(self.found) + self.n_unreadable


def metrics(
    truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]
) -> dict[str, float]:
    """All 0..1; 1 where there is nothing to find and nothing was found."""
    if not len(truth):
        return {}
    pairs = _pairs(truth, answers)
    return defined(
        f1=float(main_of(_exact_counts(pairs).sum(0))),
        token_f1=float(main_of(np.array([_character_counts(*pair) for pair in pairs], dtype=float).sum(0))),
        partial_f1=_partial_f1(pairs),
    )


def per_item(truth: Sequence[Any], answers: Sequence[Any | None], scheme: Mapping[str, Any]) -> np.ndarray:
    """Exact true positives, false positives, false negatives of each item; shape (n_items, 3)."""
    return _exact_counts(_pairs(truth, answers))


def main_of(sums: np.ndarray) -> np.ndarray:
    """f1 of sums of `per_item`, shape (..., 3) -> (...); 1 where there is nothing to find or to err."""
    return multilabel.main_of(sums)


def baseline(train: Sequence[Any], scheme: Mapping[str, Any]) -> list[Any]:
    """No span at all: no constant offset is sensible for texts of their own."""
    return []


def read(spans: Any) -> Spans | None:
    """The spans of a target or a prediction; None for what is no list of spans."""
    if not isinstance(spans, list | tuple):
        return None
    each = [_span(span) for span in spans]
    return Spans(frozenset(span for span in each if span), sum(span is None for span in each))


def _span(span: Any) -> Span | None:
    match span:
        case {"start": int(start), "end": int(end), "label": str(label)} if 0 <= start <= end <= _MAX_OFFSET:
            return start, end, label
        case _:
            return None


def _pairs(truth: Sequence[Any], answers: Sequence[Any | None]) -> list[tuple[Spans, Spans]]:
    """(human, said) of each item; what is missing is an unreadable span where the human found none."""
    pairs = []
    for target, answer in zip(truth, answers, strict=True):
        human = read(target) or Spans(frozenset(), 1)
        said = read(answer) or Spans(frozenset(), 0 if human.count else 1)
        pairs.append((human, said))
    return pairs


def _exact_counts(pairs: Sequence[tuple[Spans, Spans]]) -> np.ndarray:
    hits = [len(human.found & said.found) for human, said in pairs]
    rows = [
        (hit, said.count - hit, human.count - hit) for hit, (human, said) in zip(hits, pairs, strict=True)
    ]
    return np.array(rows, dtype=float).reshape(-1, 3)


def _character_counts(human: Spans, said: Spans) -> tuple[int, int, int]:
    """True positives, false positives, false negatives of (character, label); unreadable spans are one."""
    wanted, given = _covered(human.found), _covered(said.found)
    hits = sum(_overlap(wanted[label], given[label]) for label in wanted.keys() & given.keys())
    n_wanted = sum(map(_length, wanted.values())) + human.n_unreadable
    n_given = sum(map(_length, given.values())) + said.n_unreadable
    return hits, n_given - hits, n_wanted - hits


def _partial_f1(pairs: Sequence[tuple[Spans, Spans]]) -> float:
    """The harmonic mean of the mean credits; 1 where neither side has a span, 0 where one has none."""
    n_human = sum(human.count for human, _ in pairs)
    n_said = sum(said.count for _, said in pairs)
    if not n_human or not n_said:
        return float(n_human == n_said)
    recall = sum(_credit(human, said) for human, said in pairs) / n_human
    precision = sum(_credit(said, human) for human, said in pairs) / n_said
    return 2 * precision * recall / (precision + recall) if precision + recall else 0.0


def _credit(spans: Spans, others: Spans) -> float:
    """The shares of `spans` that `others` cover, summed; an empty span earns 1 where it is there too."""
    covered = _covered(others.found)
    credit = 0.0
    for start, end, label in sorted(spans.found):
        if start == end:
            credit += (start, end, label) in others.found
        else:
            credit += _overlap([(start, end)], covered.get(label, [])) / (end - start)
    return credit


def _covered(spans: Iterable[Span]) -> dict[str, list[tuple[int, int]]]:
    """What the spans of each label cover: disjoint (start, end), in order."""
    merged: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for start, end, label in sorted(spans):
        pieces = merged[label]
        if pieces and start <= pieces[-1][1]:
            pieces[-1] = pieces[-1][0], max(end, pieces[-1][1])
        else:
            pieces.append((start, end))
    return merged


def _length(pieces: Sequence[tuple[int, int]]) -> int:
    return sum(end - start for start, end in pieces)


def _overlap(one: Sequence[tuple[int, int]], other: Sequence[tuple[int, int]]) -> int:
    """How many characters both cover; each side's pieces are disjoint, so two at once are in both."""
    edges = sorted([(start, 1) for start, _ in [*one, *other]] + [(end, -1) for _, end in [*one, *other]])
    depth = overlap = 0
    for (at, step), (following, _) in pairwise(edges):
        depth += step
        overlap += (following - at) * (depth == 2)
    return overlap
