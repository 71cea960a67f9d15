"""The answers of all annotators to one scheme, as arrays."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class AnswerTable:
    """Who answered what to one scheme; one answer per item and annotator.

    Answer k was given by `annotators[annotator_index[k]]` to `items[item_index[k]]`. Answers are sorted
    by item, then by annotator, so those of one item lie side by side. Every item in `items` has at least
    one answer, every annotator gave at least one. All arrays are 1-D. Where the value lies depends on
    the scheme's kind; the other fields are then None:

    - nominal, ordinal: `codes` int32 (n_answers,), positions in `labels`;
    - multilabel: `offsets` int64 (n_answers + 1,) and `codes` int32; the labels of answer k are
      `codes[offsets[k]:offsets[k + 1]]`, ascending, each once, maybe none;
    - continuous: `numbers` float64 (n_answers,), all finite;
    - text, span, geometry, ranking: `objects`, one target per answer as in trainers.kinds, in a canonical
      form: equal answers are equal values and have the same `json.dumps(value, sort_keys=True)`.

    `labels` of an ordinal scheme are all its configured labels in their order, also those that nobody gave:
    a median may fall on one. For nominal and multilabel schemes they are the labels that occur, in the
    scheme's order. Where a scheme configures none, they are the labels that occur, sorted (numbers by value).
    """

    items: list[str]
    annotators: list[str]
    item_index: NDArray[np.int32]
    annotator_index: NDArray[np.int32]
    labels: list[str] = field(default_factory=list)
    codes: NDArray[np.int32] | None = None
    offsets: NDArray[np.int64] | None = None
    numbers: NDArray[np.float64] | None = None
    objects: list[Any] | None = None

    @property
    def n_answers(self) -> int:
        return len(self.item_index)

    def target(self, k: int) -> Any:
        """The value of answer `k` as a target of trainers.kinds."""
        if self.numbers is not None:
            return float(self.numbers[k])
        if self.objects is not None:
            return self.objects[k]
        assert self.codes is not None  # noqa: S101 - one of the four is always there
        if self.offsets is None:
            return self.labels[self.codes[k]]
        return sorted(self.labels[code] for code in self.codes[self.offsets[k] : self.offsets[k + 1]])

    def rows(self) -> Iterator[tuple[str, str, Any]]:
        """(item id, annotator, target) of every answer, in order; for reports and tests."""
        for k in range(self.n_answers):
            yield self.items[self.item_index[k]], self.annotators[self.annotator_index[k]], self.target(k)
