"""The train items of a bundle as molecules: features, targets, and what was left out."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import islice
from typing import Any, Iterable, Iterator, Sequence

from potato_ray.trainers import molecules
from potato_ray.trainers.base import MIN_INSTANCES, FitContext, Row, TrainerError
from potato_ray.trainers.molecule_features import MoleculeFeatures
from potato_ray.trainers.train_rows import TrainRows, read_train_rows

WINDOW_ROWS = 64
"""So many molecules are parsed at once: RDKit's objects need more memory than their features. The progress is
told after them, and molecules of thousands of atoms take seconds each."""
HELD_OUT = ("val", "test")
_EXTENSION = re.compile(r"\s\|[^|]*\|")
"""Of CXSMILES; it may have blanks in it."""


@dataclass(frozen=True)
class TrainMolecules:
    """n train items that are molecules: `matrix` n × columns float32, `bits` n × bytes of packed bits."""

    rows: TrainRows
    matrix: Any
    bits: Any
    n_invalid: int


def smiles_of(row: Row, name: str | None) -> str:
    """The SMILES of a row: its field `name`, or its text where it has no such field or `name` is None."""
    fields = row.get("fields")
    found = fields.get(name) if name and isinstance(fields, dict) else None
    return str(row.get("text") or "") if found is None else str(found)


def windows(rows: Iterable[Row]) -> Iterator[list[Row]]:
    """WINDOW_ROWS at a time."""
    waiting = iter(rows)
    while True:
        window = list(islice(waiting, WINDOW_ROWS))
        if not window:
            return
        yield window


def read_train_molecules(context: FitContext, features: MoleculeFeatures) -> TrainMolecules:
    """Read, check and featurise the train split. Raises TrainerError when nothing can be learnt from it."""
    import numpy as np

    name, scheme = context.params["smiles_field"], context.scheme.name
    labelled = [_slim(row, name) for row in context.rows("train") if scheme in row.get("targets", {})]
    matrix = np.empty((len(labelled), features.n_columns), dtype=np.float32)
    bits = [np.zeros((0, (features.n_bits + 7) // 8), dtype=np.uint8)]
    valid: list[Row] = []
    invalid = molecules.Invalid()
    known: set[bytes] = set()
    for window in windows(labelled):
        found = _read(window, invalid)
        rows = slice(len(valid), len(valid) + len(found.found))
        bits.append(features.into(matrix[rows], found.found))
        valid += [window[number] for number in found.numbers]
        known.update(map(_digest, found.found))
        context.reporter.progress(len(valid) + invalid.count, len(labelled))
    _check(context, invalid, len(labelled))
    _warn_of_prose(context, valid)
    train = read_train_rows(replace(context, rows=lambda split: valid))
    _warn_of_repeats(context, known)
    return TrainMolecules(train, matrix[: len(valid)], np.vstack(bits), invalid.count)


def _slim(row: Row, name: str | None) -> Row:
    return {"instance_id": row["instance_id"], "text": smiles_of(row, name), "targets": row["targets"]}


def _read(window: Sequence[Row], invalid: molecules.Invalid) -> molecules.Molecules:
    found = molecules.read([row["text"] for row in window])
    valid = set(found.numbers)
    for number, row in enumerate(window):
        if number not in valid:
            invalid.add(str(row["instance_id"]), row["text"])
    return found


def _check(context: FitContext, invalid: molecules.Invalid, n_rows: int) -> None:
    if not invalid.count:
        return
    said = invalid.in_words(n_rows, "train items")
    needed = context.params[MIN_INSTANCES.name]
    if n_rows - invalid.count >= needed:
        context.reporter.log(f"{said}. They were left out.", level="warning")
        return
    raise TrainerError(
        "validation_failed",
        f"{said}. {n_rows - invalid.count} are left, and {needed} are needed (min_instances).",
        _where_smiles_are(context),
    )


def _where_smiles_are(context: FitContext) -> str:
    where = context.params["smiles_field"]
    if where:
        return f"Check that the field {where!r} holds SMILES."
    return "Name the field that holds SMILES as smiles_field, or as item_properties.text_key."


def _warn_of_prose(context: FitContext, rows: Sequence[Row]) -> None:
    """What stands behind a blank is a name; but a sentence may begin with SMILES, as `I`.

    Where more items have one word there, they have names, and some names are of several words.
    """
    words = [len(_EXTENSION.sub(" ", row["text"]).split(None, 2)) - 1 for row in rows]
    wordy = [row for row, n_words in zip(rows, words) if n_words > 1]
    if not wordy or words.count(1) > len(wordy):
        return
    verb = "has" if len(wordy) == 1 else "have"
    example = f"{wordy[0]['instance_id']} ({molecules.shown(wordy[0]['text'])})"
    context.reporter.log(
        f"{len(wordy)} of {len(rows)} train items {verb} several words behind what was read as their SMILES, "
        f"such as {example}. They count as the molecule's name; where they are prose: "
        f"{_where_smiles_are(context)}",
        level="warning",
    )


def _warn_of_repeats(context: FitContext, known: set[bytes]) -> None:
    """A molecule in train and held out is no test of anything."""
    n_repeats, n_held_out = 0, 0
    for split in HELD_OUT:
        for window in windows(_slim_held_out(context, split)):
            n_held_out += len(window)
            found = molecules.read([row["text"] for row in window]).found
            n_repeats += sum(_digest(molecule) in known for molecule in found)
    if n_repeats:
        verb = "is" if n_repeats == 1 else "are"
        context.reporter.log(
            f"{n_repeats} of {n_held_out} held-out items {verb} the same molecule as a train item (equal "
            "canonical SMILES), which flatters the held-out score. Take out what is there twice, or set "
            "split to scaffold.",
            level="warning",
        )


def _slim_held_out(context: FitContext, split: str) -> Iterator[Row]:
    for row in context.rows(split):
        yield {"text": smiles_of(row, context.params["smiles_field"])}


def _digest(molecule: Any) -> bytes:
    return blake2b(molecules.canonical(molecule).encode("utf-8"), digest_size=8).digest()
