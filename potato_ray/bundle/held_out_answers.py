"""What each annotator said of the held-out items, as of the bundle.

A file of its own beside the bundle, since it names people: it stays where the bundle was built, and a
worker, here or on another machine, never gets it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

from potato_ray.bundle.split_names import HELD_OUT
from potato_ray.project.answers import AnswerTable

Answers = dict[str, Any]
"""Targets as in trainers.kinds, by annotator."""


def write_held_out_answers(path: Path, table: AnswerTable, split_of: Mapping[str, str]) -> None:
    """Write the answers to the items of val and test: a JSON line an item, readable by the owner alone."""
    part = path.with_name(path.name + ".part")
    part.unlink(missing_ok=True)
    with open(part, "x", encoding="ascii", opener=_private) as handle:
        for item, answers in groupby(_held_out(table, split_of), key=itemgetter(0)):
            said = {annotator: answer for _, annotator, answer in answers}
            handle.write(json.dumps({"instance_id": item, "answers": said}) + "\n")
    part.replace(path)


def _held_out(table: AnswerTable, split_of: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    """(item, annotator, answer) of the held-out items; those of one item lie side by side."""
    held_out = [split_of.get(item) in HELD_OUT for item in table.items]
    pairs = zip(table.item_index.tolist(), table.annotator_index.tolist(), strict=True)
    for k, (item, annotator) in enumerate(pairs):
        if held_out[item]:
            yield table.items[item], table.annotators[annotator], table.target(k)


def _private(name: str, flags: int) -> int:
    return os.open(name, flags, 0o600)


def read_held_out_answers(path: Path, items: Collection[str]) -> dict[str, Answers]:
    """The annotators' answers to `items`; an item without any, and a missing file, give nothing."""
    found: dict[str, Answers] = {}
    try:
        handle = path.open(encoding="ascii")
    except FileNotFoundError:
        return found
    with handle:
        for line in handle:
            row = json.loads(line)
            if row["instance_id"] in items:
                found[row["instance_id"]] = row["answers"]
    return found
