"""One answer per item out of the answers of all annotators.

| kind | consensus | majority |
|---|---|---|
| nominal | the most probable label, by Dawid and Skene | the label with most votes |
| multilabel | for each label by itself: is "given" or "not given" more probable | which has more votes |
| ordinal | the median label | the label with most votes |
| continuous | the median | the median: a vote of numbers that hardly repeat would be drawn by lot |
| others | the most frequent answer; an item without one is left unresolved | the same |

Labels whose scores lie within 1e-6 of the best, or a median halfway between two labels, are a tie, broken
by a hash of the item and of the tied labels' texts: the same every time, in favour of no label, and
whatever labels the scheme has besides, in whatever order.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import numpy as np
from numpy.typing import NDArray

from potato_ray.project import dawid_skene
from potato_ray.project.answers import AnswerTable
from potato_ray.trainers import kinds

CONSENSUS = "consensus"
MAJORITY = "majority"
TIE_WIDTH = 1e-6
_ITEMS_PER_POLL = 1000

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Poll = Callable[[], object]


@dataclass(frozen=True)
class Resolution:
    """The resolved answer of each item that has one, in the order of the table.

    `targets` are as in trainers.kinds. `n_disagreement` counts items with two or more distinct answers,
    `tied` are those where the hash decided, `unresolved` those left out for want of a majority.
    """

    targets: dict[str, Any]
    n_disagreement: int
    tied: list[str] = field(default_factory=list)
    unresolved: list[str] = field(default_factory=list)

    @property
    def n_ties(self) -> int:
        return len(self.tied)


def resolve(
    kind: str,
    table: AnswerTable,
    aggregation: str,
    labels: Sequence[str],
    seed: int,
    poll: Poll = lambda: None,
) -> Resolution:
    """Resolve the answers of `table` to a scheme of `kind`.

    `aggregation` is consensus or majority; `labels` name the table's codes; `seed` goes into the hash
    that breaks ties. `poll` is called now and then and may raise to stop the work. Raises ValueError
    for an unknown kind or aggregation.
    """
    if kind not in kinds.ALL or aggregation not in (CONSENSUS, MAJORITY):
        raise ValueError(f"no way to resolve {kind!r} answers by {aggregation!r}")
    if not table.n_answers:
        return Resolution({}, 0)
    if kind == kinds.CONTINUOUS:
        return _numbers(table)
    if kind == kinds.MULTILABEL:
        return _label_sets(table, aggregation, labels, seed, poll)
    if kind == kinds.ORDINAL and aggregation == CONSENSUS:
        return _median_labels(table, labels, seed)
    if kind in (kinds.NOMINAL, kinds.ORDINAL):
        return _labels(table, aggregation, labels, seed, poll)
    return _frequent(table, poll)


def _labels(table: AnswerTable, aggregation: str, labels: Sequence[str], seed: int, poll: Poll) -> Resolution:
    assert table.codes is not None  # noqa: S101 - it is there for nominal and ordinal schemes
    scores = _scores(table, table.codes, len(labels), aggregation, poll)
    near = scores >= scores.max(axis=1, keepdims=True) - TIE_WIDTH
    choice = scores.argmax(axis=1)
    tied = np.flatnonzero(near.sum(axis=1) > 1)
    for item in tied:
        choice[item] = _drawn(seed, table.items[item], labels, np.flatnonzero(near[item]).tolist())
    return Resolution(
        {item: labels[code] for item, code in zip(table.items, choice, strict=True)},
        _n_uneven(table, table.codes),
        [table.items[item] for item in tied],
    )


def _label_sets(
    table: AnswerTable, aggregation: str, labels: Sequence[str], seed: int, poll: Poll
) -> Resolution:
    """Each label by itself, given (1) or not given (0); at a tie a hash of item and label decides."""
    chosen: list[list[str]] = [[] for _ in table.items]
    disagreed, tied = np.zeros(len(table.items), bool), np.zeros(len(table.items), bool)
    for code, label in enumerate(labels):
        poll()
        given = _given(table, code)
        scores = _scores(table, given, 2, aggregation, poll)
        near = np.abs(scores[:, 1] - scores[:, 0]) <= TIE_WIDTH
        taken = scores[:, 1] > scores[:, 0]
        for item in np.flatnonzero(near):
            taken[item] = _lot(seed, table.items[item], label) & 1
        for item in np.flatnonzero(taken):
            chosen[item].append(label)
        disagreed |= _uneven(table, given)
        tied |= near
    return Resolution(
        {item: sorted(own) for item, own in zip(table.items, chosen, strict=True)},
        int(disagreed.sum()),
        [table.items[item] for item in np.flatnonzero(tied)],
    )


def _given(table: AnswerTable, code: int) -> NDArray[np.int32]:
    """1 for every answer that holds the label, else 0."""
    assert table.codes is not None and table.offsets is not None  # noqa: S101, PT018 - as for multilabel
    given = np.zeros(table.n_answers, np.int32)
    given[np.searchsorted(table.offsets, np.flatnonzero(table.codes == code), side="right") - 1] = 1
    return given


def _median_labels(table: AnswerTable, labels: Sequence[str], seed: int) -> Resolution:
    """The label in the middle; halfway between two neighbours, the hash takes one of them."""
    assert table.codes is not None  # noqa: S101 - it is there for ordinal schemes
    medians = _medians(table, table.codes.astype(np.float64))
    choice = np.floor(medians).astype(np.int64)
    tied = np.flatnonzero(medians > choice)
    for item in tied:
        lower = int(choice[item])
        choice[item] = _drawn(seed, table.items[item], labels, [lower, lower + 1])
    return Resolution(
        {item: labels[code] for item, code in zip(table.items, choice, strict=True)},
        _n_uneven(table, table.codes),
        [table.items[item] for item in tied],
    )


def _numbers(table: AnswerTable) -> Resolution:
    assert table.numbers is not None  # noqa: S101 - they are there for continuous schemes
    medians = _medians(table, table.numbers).tolist()
    return Resolution(dict(zip(table.items, medians, strict=True)), _n_uneven(table, table.numbers))


def _frequent(table: AnswerTable, poll: Poll) -> Resolution:
    """The answer that more annotators gave than any other; answers are compared as canonical JSON."""
    starts = [*_starts(table).tolist(), table.n_answers]
    targets: dict[str, Any] = {}
    unresolved: list[str] = []
    n_disagreement = 0
    for number, (item, first, end) in enumerate(zip(table.items, starts, starts[1:], strict=False)):
        if number % _ITEMS_PER_POLL == 0:
            poll()
        answers = [table.target(k) for k in range(first, end)]
        forms = [json.dumps(answer, sort_keys=True) for answer in answers]
        best, *others = Counter(forms).most_common(2)
        n_disagreement += len(others)
        if others and others[0][1] == best[1]:
            unresolved.append(item)
        else:
            targets[item] = answers[forms.index(best[0])]
    return Resolution(targets, n_disagreement, unresolved=unresolved)


# --- scores, medians and ties -------------------------------------------------------------------


def _scores(
    table: AnswerTable, codes: NDArray[np.int32], n_labels: int, aggregation: str, poll: Poll
) -> Floats:
    """Posteriors or counts of votes, (n_items, n_labels)."""
    scores = dawid_skene.votes(table.item_index, codes, len(table.items), n_labels)
    if aggregation == MAJORITY:
        return scores
    compared = _compared(table)
    items, item_index = np.unique(table.item_index[compared], return_inverse=True)
    if len(items):
        scores[items] = dawid_skene.fit(
            item_index,
            table.annotator_index[compared],
            codes[compared],
            n_items=len(items),
            n_labels=n_labels,
            poll=poll,
        ).posteriors
    return scores


def _compared(table: AnswerTable) -> Bools:
    """Which answers come from annotators who share an item with somebody.

    Of any other annotator nothing can be learnt, so his answers stand; in the model they could be
    overruled just because his share of a label differs from that of the others.
    """
    shared = np.bincount(table.item_index)[table.item_index] > 1
    compared: Bools = np.bincount(table.annotator_index[shared], minlength=len(table.annotators)) > 0
    return compared[table.annotator_index]


def _starts(table: AnswerTable) -> NDArray[np.intp]:
    """Where the answers of each item begin; they lie side by side."""
    return np.searchsorted(table.item_index, np.arange(len(table.items)))


def _medians(table: AnswerTable, values: Floats) -> Floats:
    """The median per item. Halves are added, since a sum of two huge numbers would overflow."""
    ordered = values[np.lexsort((values, table.item_index))]
    starts = _starts(table)
    counts = np.diff(starts, append=table.n_answers)
    medians: Floats = ordered[starts + (counts - 1) // 2] * 0.5 + ordered[starts + counts // 2] * 0.5
    return medians


def _uneven(table: AnswerTable, values: NDArray[Any]) -> Bools:
    """Which items have two or more distinct values."""
    starts = _starts(table)
    uneven: Bools = np.minimum.reduceat(values, starts) < np.maximum.reduceat(values, starts)
    return uneven


def _n_uneven(table: AnswerTable, values: NDArray[Any]) -> int:
    return int(_uneven(table, values).sum())


def _drawn(seed: int, item: str, labels: Sequence[str], tied: Sequence[int]) -> int:
    """The code among `tied` whose label draws the lowest lot."""
    return min(tied, key=lambda code: _lot(seed, item, labels[code]))


def _lot(seed: int, item: str, label: str) -> int:
    """A number that depends on these three alone.

    The item's split is decided by the hash of the seed and the id without a label, so a tie is broken
    independently of the split: no split gets more of one label.
    """
    return int.from_bytes(sha256(f"{seed}:{item}:{label}".encode()).digest())
