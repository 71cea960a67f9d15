"""How fast answers become one per item: python tests/bench/consensus_speed.py [ANSWERS]

Prints how many answers Dawid–Skene takes a second, and how the time grows when the answers double.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from potato_ray.project.answers import AnswerTable
from potato_ray.project.consensus import resolve
from potato_ray.trainers import kinds


def nominal(n_answers: int, n_annotators: int = 5, n_labels: int = 3) -> AnswerTable:
    """Annotators who are right in 9, 8, 7, … of ten cases, each on every item."""
    rng = np.random.default_rng(0)
    n_items = n_answers // n_annotators
    truth = rng.integers(0, n_labels, n_items)
    wrong = rng.random((n_items, n_annotators)) > np.linspace(0.9, 0.5, n_annotators)
    codes = np.where(wrong, rng.integers(0, n_labels, wrong.shape), truth[:, None])
    return table(np.repeat(np.arange(n_items), n_annotators), n_items, n_annotators, codes.ravel(), n_labels)


def table(
    items: np.ndarray, n_items: int, n_annotators: int, codes: np.ndarray, n_labels: int
) -> AnswerTable:
    return AnswerTable(
        items=[f"item-{number}" for number in range(n_items)],
        annotators=[f"annotator-{number}" for number in range(n_annotators)],
        item_index=items.astype(np.int32),
        annotator_index=np.tile(np.arange(n_annotators, dtype=np.int32), n_items),
        labels=[f"label-{number}" for number in range(n_labels)],
        codes=codes.astype(np.int32),
    )


def seconds(answers: AnswerTable) -> float:
    began = time.perf_counter()
    resolve(kinds.NOMINAL, answers, "consensus", answers.labels, 0)
    return time.perf_counter() - began


def main() -> None:
    n_answers = int(sys.argv[1]) if len(sys.argv) > 1 else 300_000
    once, twice = seconds(nominal(n_answers)), seconds(nominal(2 * n_answers))
    print(
        f"{2 * n_answers / twice:,.0f} answers a second; twice as many take {twice / once:.2f} times as long"
    )


if __name__ == "__main__":
    main()
