"""Tables of answers for the tests of consensus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from potato_ray.project.answers import AnswerTable
from potato_ray.project.columns import value_columns
from potato_ray.project.schemes import Scheme


def table_of(kind: str, answers: Sequence[Sequence[Any]], labels: Sequence[str] = ()) -> AnswerTable:
    """The answers of each item in turn, by annotator 0, 1, ...; None is no answer."""
    rows = [
        (item, annotator, answer)
        for item, given in enumerate(answers)
        for annotator, answer in enumerate(given)
        if answer is not None
    ]
    items, item_index = np.unique([row[0] for row in rows], return_inverse=True)
    people, annotator_index = np.unique([row[1] for row in rows], return_inverse=True)
    return AnswerTable(
        items=[f"item-{number}" for number in items.tolist()],
        annotators=[f"annotator-{number}" for number in people.tolist()],
        item_index=item_index.astype(np.int32),
        annotator_index=annotator_index.astype(np.int32),
        **value_columns(Scheme("mood", "radio", kind, tuple(labels)), [row[2] for row in rows]),
    )
