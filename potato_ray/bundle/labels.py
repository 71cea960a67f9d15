"""The labels that occur in a bundle, and how often."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from potato_ray.project.columns import in_scheme_order
from potato_ray.project.schemes import Scheme
from potato_ray.trainers import kinds


def label_counts(scheme: Scheme, targets: Iterable[Any]) -> dict[str, int]:
    """In how many targets each label occurs, in the scheme's order; empty for numbers and texts."""
    counts: Counter[str] = Counter()
    for target in targets:
        counts.update(set(_labels_in(scheme, target)))
    return {label: counts[label] for label in in_scheme_order(scheme, counts.keys())}


def _labels_in(scheme: Scheme, target: Any) -> Iterator[str]:
    if scheme.kind in (kinds.NOMINAL, kinds.ORDINAL):
        yield target
    elif scheme.kind in (kinds.MULTILABEL, kinds.RANKING):
        yield from target
    elif scheme.kind in (kinds.SPAN, kinds.GEOMETRY):
        yield from (part["label"] for part in target if "label" in part)
