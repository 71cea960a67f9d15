"""The train rows of a bundle as lists: texts and targets, checked and coded."""

from __future__ import annotations

import warnings
from collections import Counter
from dataclasses import dataclass
from typing import Any, Sequence

from potato_ray.trainers import kinds
from potato_ray.trainers.base import FitContext, Reporter, Row, SchemeSpec, TrainerError
from potato_ray.trainers.features import Texts

NAMED = 5
"""So many of the items that are left out are named."""


@dataclass(frozen=True)
class TrainRows:
    """n train items: their texts, and their targets in the form that estimators take.

    `targets` are n label numbers (into `labels`), n × labels booleans for multilabel, or n floats for
    continuous, whose `labels` are empty. `paired`: every item has two texts.
    """

    texts: Texts
    targets: Any
    labels: tuple[str, ...]
    paired: bool


def read_train_rows(context: FitContext) -> TrainRows:
    """Read and check the train split. Raises TrainerError (validation_failed) when nothing can be learnt."""
    scheme = context.scheme
    rows = [row for row in context.rows("train") if scheme.name in row.get("targets", {})]
    _check_not_pictures(rows)
    _warn_of_weights(context)
    paired = _are_pairs(scheme, rows)
    if paired:
        rows = _pairs_of(context.reporter, rows)
    elif scheme.annotation_type == "pairwise":
        _warn_of_no_pairs(context)
    usable = [row for row in rows if any(text.strip() for text in texts_of(row, paired))]
    _check_texts(context.reporter, len(rows), len(usable))
    raw = [row["targets"][scheme.name] for row in usable]
    targets, labels = _coded(scheme, raw)
    _warn_of_rare_labels(context.reporter, scheme, raw)
    return TrainRows([texts_of(row, paired) for row in usable], targets, labels, paired)


def texts_of(row: Row, paired: bool) -> tuple[str, ...]:
    """The texts of a row: one, or two for a pair, which has two."""
    if paired:
        first, second = row["texts"]
        return str(first), str(second)
    text = row.get("text")
    return (text if isinstance(text, str) else "",)


class OddRows:
    """What a model of pairs is asked about that is no pair: it gets no prediction, and is told of."""

    def __init__(self, paired: bool) -> None:
        self.paired = paired
        self.names: list[str] = []

    def left_out(self, rows: Sequence[Row]) -> list[Row]:
        """The other rows."""
        if not self.paired:
            return list(rows)
        self.names += [str(row["instance_id"]) for row in rows if not _is_pair(row)]
        return [row for row in rows if _is_pair(row)]

    def tell(self, reporter: Reporter | None) -> None:
        """Say which there are, if any; without a reporter it is a warning (NoPairs)."""
        message = f"{_no_pairs(self.names)}: no prediction." if self.names else ""
        if message and reporter is not None:
            reporter.log(message, level="warning")
        elif message:
            warnings.warn(message, NoPairs, stacklevel=3)


class NoPairs(UserWarning):
    """Some of the items that a model of pairs was asked about do not have two texts."""


def _is_pair(row: Row) -> bool:
    texts: Any = row.get("texts")
    return isinstance(texts, (list, tuple)) and len(texts) == 2


def _are_pairs(scheme: SchemeSpec, rows: Sequence[Row]) -> bool:
    return scheme.annotation_type == "pairwise" and any(map(_is_pair, rows))


def _pairs_of(reporter: Reporter, rows: Sequence[Row]) -> list[Row]:
    odd = [str(row["instance_id"]) for row in rows if not _is_pair(row)]
    if odd:
        reporter.log(f"{_no_pairs(odd)}: left out of the {len(rows)} train items.", level="warning")
    return [row for row in rows if _is_pair(row)]


def _no_pairs(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    items = "item that does" if len(names) == 1 else "items that do"
    return f"{len(names)} {items} not have two texts ({', '.join(names[:NAMED])}{more})"


def _warn_of_no_pairs(context: FitContext) -> None:
    context.reporter.log(
        f"No item of '{context.scheme.name}' has two texts, so the model reads each as one and cannot tell "
        "the sides apart. Let item_properties.text_key name a field that is a list of two texts.",
        level="warning",
    )


def _warn_of_weights(context: FitContext) -> None:
    if context.scheme.kind == kinds.CONTINUOUS and context.params.get("class_weights", "none") != "none":
        context.reporter.log("class_weights has no effect: numbers have no labels to weigh.", level="warning")


def _check_not_pictures(rows: Sequence[Row]) -> None:
    # A bundle of pictures has their names as texts, from which a model would learn nonsense.
    if rows and all("media" in row or row.get("media_missing") for row in rows):
        raise TrainerError(
            "validation_failed",
            "The items are pictures, and this trainer learns from texts.",
            "Choose a trainer for images, or name a field with text as item_properties.text_key.",
        )


def _check_texts(reporter: Reporter, n_rows: int, n_usable: int) -> None:
    if n_rows == 0:
        raise TrainerError(
            "validation_failed",
            "No resolved annotations to train on.",
            "Annotate some items and start again.",
        )
    if n_usable == 0:
        raise TrainerError(
            "validation_failed",
            f"All {n_rows} train items have empty texts.",
            "Check that item_properties.text_key names the field that holds the text.",
        )
    if n_usable < n_rows:
        message = f"{n_rows - n_usable} of {n_rows} train items have no text and were left out."
        reporter.log(message, level="warning")


def _coded(scheme: SchemeSpec, raw: Sequence[Any]) -> tuple[Any, tuple[str, ...]]:
    import numpy as np

    if scheme.kind == kinds.CONTINUOUS:
        _check_distinct(scheme, len(set(raw)), "value(s)")
        return np.asarray(raw, dtype=float), ()
    if scheme.kind == kinds.MULTILABEL:
        return _coded_sets(scheme, raw)
    labels = _seen_labels(scheme, {str(target) for target in raw})
    _check_distinct(scheme, len(labels), "label(s)")
    numbers = {label: n for n, label in enumerate(labels)}
    return np.asarray([numbers[str(target)] for target in raw]), labels


def _coded_sets(scheme: SchemeSpec, raw: Sequence[Any]) -> tuple[Any, tuple[str, ...]]:
    import numpy as np

    labels = _seen_labels(scheme, {str(label) for target in raw for label in target})
    _check_distinct(scheme, len({tuple(sorted(target)) for target in raw}), "set(s) of labels")
    numbers = {label: n for n, label in enumerate(labels)}
    coded = np.zeros((len(raw), len(labels)), dtype=bool)
    for n, target in enumerate(raw):
        coded[n, [numbers[str(label)] for label in target]] = True
    return coded, labels


def _seen_labels(scheme: SchemeSpec, seen: set[str]) -> tuple[str, ...]:
    """The labels of the train rows, in the scheme's order; those it does not name come last, sorted."""
    known = [label for label in scheme.labels if label in seen]
    return (*known, *sorted(seen.difference(known)))


def _check_distinct(scheme: SchemeSpec, n_distinct: int, what: str) -> None:
    if n_distinct < 2:
        raise TrainerError(
            "validation_failed",
            f"Schema '{scheme.name}' has {n_distinct} distinct {what} in the data; two are needed to learn "
            "from.",
            "Annotate items with other answers.",
        )


def _warn_of_rare_labels(reporter: Reporter, scheme: SchemeSpec, raw: Sequence[Any]) -> None:
    if scheme.kind == kinds.CONTINUOUS:
        return
    answers: Any = [label for target in raw for label in target] if scheme.kind == kinds.MULTILABEL else raw
    rare = sorted(str(label) for label, count in Counter(answers).items() if count == 1)
    if rare:
        shown = ", ".join(f"'{label}'" for label in rare[:10])
        which = f"the label {shown}: what is predicted of it"
        if len(rare) > 1:
            which = f"each of the labels {shown}: what is predicted of them"
        reporter.log(f"Only one train item has {which} is not to be relied on.", level="warning")
