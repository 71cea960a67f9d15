"""The annotation schemes of a project, and the kind of answer that each one asks for."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from potato_ray.errors import StartRefused
from potato_ray.trainers import kinds

KIND_OF_TYPE: Mapping[str, str] = {
    "radio": kinds.NOMINAL,
    "select": kinds.NOMINAL,
    "triage": kinds.NOMINAL,
    "pairwise": kinds.NOMINAL,
    "likert": kinds.ORDINAL,
    "confidence": kinds.ORDINAL,
    "slider": kinds.CONTINUOUS,
    "number": kinds.CONTINUOUS,
    "vas": kinds.CONTINUOUS,
    "multiselect": kinds.MULTILABEL,
    "hierarchical_multiselect": kinds.MULTILABEL,
    "span": kinds.SPAN,
    "error_span": kinds.SPAN,
    "extractive_qa": kinds.SPAN,
    "text": kinds.TEXT,
    "textbox": kinds.TEXT,
    "text_edit": kinds.TEXT,
    "image_annotation": kinds.GEOMETRY,
    "microscopy": kinds.GEOMETRY,
    "geo_annotation": kinds.GEOMETRY,
    "ranking": kinds.RANKING,
    "bws": kinds.RANKING,
}
"""The kind of each annotation type; pairwise in mode scale is continuous."""

PAIR_LABELS = ("A", "B", "tie")
"""What a binary pairwise scheme stores, whatever names it shows for the two sides."""

_MAX_SCALE = 1000
_LEFT_EMPTY = ("number", "select", "ranking", "pairwise")


@dataclass(frozen=True)
class Scheme:
    """One annotation scheme.

    `kind` is one of trainers.kinds, or None for a type that nobody can learn (`why_not` says why).
    `labels` are the configured ones in their order; `options` is the scheme's own mapping.
    """

    name: str
    annotation_type: str
    kind: str | None
    labels: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)
    why_not: str = ""


def schemes_of(annotation_schemes: Iterable[Mapping[str, Any]]) -> list[Scheme]:
    """The schemes of the configuration's `annotation_schemes`, in their order."""
    return [_scheme(options) for options in annotation_schemes]


def scheme_named(schemes: Sequence[Scheme], name: str) -> Scheme:
    """The scheme of that name. Raises StartRefused (unknown_schema), naming the nearest one."""
    for scheme in schemes:
        if scheme.name == name:
            return scheme
    names = [scheme.name for scheme in schemes]
    near = difflib.get_close_matches(name, names, n=1)
    raise StartRefused(
        f"No annotation scheme named {name!r} in this configuration.",
        code="unknown_schema",
        evidence=f"It has {', '.join(map(repr, names)) or 'none'}.",
        next_step=f"Did you mean {near[0]!r}?" if near else "Name one of the schemes of annotation_schemes.",
    )


def left_empty(options: Mapping[str, Any]) -> str:
    """What kind of scheme it is whose pre-labels Potato's pages never fill in; "" for all others."""
    annotation_type = str(options.get("annotation_type", ""))
    if annotation_type == "likert":
        return "" if options.get("labels") else "a likert scale without labels"
    return f"of type {annotation_type}" if annotation_type in _LEFT_EMPTY else ""


def _scheme(options: Mapping[str, Any]) -> Scheme:
    name = str(options.get("name", ""))
    annotation_type = str(options.get("annotation_type", ""))
    kind = KIND_OF_TYPE.get(annotation_type)
    if annotation_type == "pairwise":
        return _pairwise(name, options)
    if kind is None:
        why_not = f"Annotations of type {annotation_type!r} hold no answer that a model could learn."
        return Scheme(name, annotation_type, None, _labels(options), dict(options), why_not)
    if kind == kinds.CONTINUOUS:
        return Scheme(name, annotation_type, kind, (), dict(options))
    labels = _labels(options)
    if kind == kinds.ORDINAL and not labels:
        labels = _scale(options)
    return Scheme(name, annotation_type, kind, labels, dict(options))


def _pairwise(name: str, options: Mapping[str, Any]) -> Scheme:
    mode = str(options.get("mode", "binary"))
    if mode == "scale":
        return Scheme(name, "pairwise", kinds.CONTINUOUS, (), dict(options))
    if mode == "binary":
        labels = PAIR_LABELS if options.get("allow_tie") else PAIR_LABELS[:2]
        return Scheme(name, "pairwise", kinds.NOMINAL, labels, dict(options))
    why_not = f"Pairwise comparisons in mode {mode!r} hold no single answer; binary and scale do."
    return Scheme(name, "pairwise", None, (), dict(options), why_not)


def _labels(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The configured labels, each once; a label is a text or a mapping that has a `name`."""
    configured = options.get("labels")
    if not isinstance(configured, (list, tuple)):
        return ()
    names = (label.get("name") if isinstance(label, Mapping) else label for label in configured)
    return tuple(dict.fromkeys(str(name) for name in names if name is not None))


def _scale(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The points "1" to "size" of a scale without labels of its own."""
    size = options.get("size", options.get("scale_points"))
    if isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= _MAX_SCALE:
        return ()
    return tuple(str(point) for point in range(1, size + 1))
