#!/usr/bin/env python3
"""How fast answers become one per item, by kind of scheme.

    python tests/bench/consensus_speed.py [ANSWERS]

For each kind: answers a second at twice ANSWERS, and how the time grows when the answers double; the medians
of several turns.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable

import numpy as np

from potato_ray.project.answers import AnswerTable
from potato_ray.project.consensus import resolve
from potato_ray.trainers import kinds

TURNS = 5
N_ANNOTATORS = 5
N_LABELS = 3


def labelled(n_answers: int) -> AnswerTable:
    """Annotators who are right in 9, 8, 7, … of ten cases, each on every item."""
    rng = np.random.default_rng(0)
    n_items = n_answers // N_ANNOTATORS
    truth = rng.integers(0, N_LABELS, n_items)
    wrong = rng.random((n_items, N_ANNOTATORS)) > np.linspace(0.9, 0.5, N_ANNOTATORS)
    codes = np.where(wrong, rng.integers(0, N_LABELS, wrong.shape), truth[:, None])
    return table(n_items, codes=codes.ravel().astype(np.int32))


def label_sets(n_answers: int) -> AnswerTable:
    """The same answers, each as a set of that label alone."""
    single = labelled(n_answers)
    offsets = np.arange(single.n_answers + 1, dtype=np.int64)
    return table(len(single.items), codes=single.codes, offsets=offsets)


def numbers(n_answers: int) -> AnswerTable:
    n_items = n_answers // N_ANNOTATORS
    return table(n_items, numbers=np.random.default_rng(0).random(n_items * N_ANNOTATORS))


def texts(n_answers: int) -> AnswerTable:
    single = labelled(n_answers)
    return table(len(single.items), objects=[f"answer {code}" for code in single.codes])


def table(n_items: int, **values: object) -> AnswerTable:
    return AnswerTable(
        items=[f"item-{number}" for number in range(n_items)],
        annotators=[f"annotator-{number}" for number in range(N_ANNOTATORS)],
        item_index=np.repeat(np.arange(n_items, dtype=np.int32), N_ANNOTATORS),
        annotator_index=np.tile(np.arange(N_ANNOTATORS, dtype=np.int32), n_items),
        labels=[f"label-{number}" for number in range(N_LABELS)],
        **values,  # type: ignore[arg-type]
    )


MADE: dict[str, Callable[[int], AnswerTable]] = {
    kinds.NOMINAL: labelled,
    kinds.ORDINAL: labelled,
    kinds.MULTILABEL: label_sets,
    kinds.CONTINUOUS: numbers,
    kinds.TEXT: texts,
}


def seconds(kind: str, answers: AnswerTable) -> float:
    began = time.perf_counter()
    resolve(kind, answers, "consensus", answers.labels, 0)
    return time.perf_counter() - began


def main() -> None:
    n_answers = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    for kind, make in MADE.items():
        once, twice = make(n_answers), make(2 * n_answers)
        turns = [(seconds(kind, once), seconds(kind, twice)) for _ in range(TURNS)]
        once_s, twice_s = (statistics.median(times) for times in zip(*turns, strict=True))
        rate, growth = twice.n_answers / twice_s, twice_s / once_s
        print(f"{kind:<12}{rate:>12,.0f} answers a second; twice as many take {growth:.2f} times as long")


if __name__ == "__main__":
    main()
