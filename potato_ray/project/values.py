"""What one annotator's entries for one scheme and one item say."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from potato_ray.project.schemes import Scheme
from potato_ray.project.text_fields import clean
from potato_ray.project.user_state import Entry
from potato_ray.trainers import kinds

SEVERAL = "several"
UNKNOWN_LABEL = "unknown_label"
BAD_VALUE = "bad_value"
NOTHING = "nothing"

_LABEL_IN_VALUE = ("select", "pairwise")
"""Types whose entry is named select-one or selection; the label is in the value."""

_FREE_RESPONSE = "free_response"
"""The name of the entry that holds what was written into the text box beside the labels."""

_WITH_TEXT_BOX = (kinds.NOMINAL, kinds.ORDINAL, kinds.MULTILABEL)

Span = tuple[int, int, str]


@dataclass(frozen=True)
class Rejected:
    """Entries that are no usable answer: one of the reasons above, and the label or value that shows it."""

    reason: str
    detail: str = ""


class _Reject(Exception):
    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(reason, detail)
        self.rejected = Rejected(reason, detail)


class Interpreter:
    """Turns the entries of one scheme into an answer.

    An answer is a label (nominal, ordinal), a tuple of labels (multilabel), a float, a text, a tuple of
    (start, end, label) with offsets into the displayed text (span), or a list as in trainers.kinds.
    """

    def __init__(self, scheme: Scheme) -> None:
        self._scheme = scheme
        self._known = frozenset(scheme.labels)
        self._has_text_box = bool(scheme.options.get("has_free_response")) and scheme.kind in _WITH_TEXT_BOX
        by_kind: Mapping[str, Callable[[list[Entry]], Any]] = {
            kinds.NOMINAL: self._one_label,
            kinds.ORDINAL: self._one_label,
            kinds.MULTILABEL: self._labels,
            kinds.CONTINUOUS: self._number,
            kinds.TEXT: self._text,
            kinds.SPAN: self._spans,
            kinds.GEOMETRY: self._objects,
            kinds.RANKING: self._ranking,
        }
        self._by_kind = by_kind[scheme.kind or ""]

    def __call__(self, entries: list[Entry]) -> Any:
        """The answer, or a Rejected; never raises for what a file may hold."""
        given = [entry for entry in entries if not (_is_unset(entry.value) or self._is_remark(entry))]
        try:
            return self._by_kind(given)
        except _Reject as rejection:
            return rejection.rejected
        except RecursionError:
            return Rejected(BAD_VALUE)

    def _is_remark(self, entry: Entry) -> bool:
        """A text beside the answer, which is no part of it; a label of that name stays one."""
        return self._has_text_box and entry.name == _FREE_RESPONSE and _FREE_RESPONSE not in self._known

    def _one_label(self, entries: list[Entry]) -> str:
        if len(entries) == 1:
            return self._label(entries[0])
        return str(_only([self._label(entry) for entry in entries]))

    def _labels(self, entries: list[Entry]) -> tuple[str, ...]:
        if not entries:
            raise _Reject(NOTHING)
        named = [label for entry in entries for label in self._labels_of(entry)]
        return tuple(sorted(set(named)))

    def _labels_of(self, entry: Entry) -> list[str]:
        """The labels of one ticked box, or of an entry that lists several."""
        listed = _json_list(entry.value)
        if listed is None:
            return [self._label(entry)]
        return [self._known_label([part]) for part in listed]

    def _label(self, entry: Entry) -> str:
        value_first = self._scheme.annotation_type in _LABEL_IN_VALUE or not self._known
        return self._known_label([entry.value, entry.name] if value_first else [entry.name, entry.value])

    def _known_label(self, candidates: Sequence[Any]) -> str:
        unknown = ""
        for candidate in candidates:
            text = _label_text(candidate)
            if text and (text in self._known or not self._known):
                return text
            unknown = unknown or text
        raise _Reject(UNKNOWN_LABEL, unknown) if unknown else _Reject(BAD_VALUE)

    def _number(self, entries: list[Entry]) -> float:
        value = _only([entry.value for entry in entries])
        try:
            number = math.nan if isinstance(value, bool) else float(value)
        except (TypeError, ValueError, OverflowError):
            number = math.nan
        if not math.isfinite(number):
            raise _Reject(BAD_VALUE, str(value)[:40])
        return number + 0.0

    def _text(self, entries: list[Entry]) -> str:
        value = _only([entry.value for entry in entries])
        if not isinstance(value, str):
            raise _Reject(BAD_VALUE, str(value)[:40])
        text = clean(value).strip()
        if not text:
            raise _Reject(NOTHING)
        return text

    def _spans(self, entries: list[Entry]) -> tuple[Span, ...]:
        if not entries:
            raise _Reject(NOTHING)
        found: set[Span] = set()
        for entry in entries:
            listed = _json_list(entry.value)
            for spec in [entry.spec] if listed is None else listed:
                found.add(self._span(spec))
        return tuple(sorted(found))

    def _span(self, spec: Any) -> Span:
        match spec:
            case {"start": int(start), "end": int(end)}:
                return start, end, self._known_label([spec.get("name"), spec.get("label"), spec.get("title")])
            case _:
                raise _Reject(BAD_VALUE)

    def _objects(self, entries: list[Entry]) -> list[dict[str, Any]]:
        listed = _json_list(_only([entry.value for entry in entries]))
        if listed is None:
            raise _Reject(BAD_VALUE)
        return sorted(map(self._object, listed), key=lambda shape: json.dumps(shape, sort_keys=True))

    def _object(self, shape: Any) -> dict[str, Any]:
        match shape:
            case {"type": str(form), "coordinates": (dict() | list()) as coordinates}:
                label = self._known_label([shape.get("label")])
                return {"type": form, "label": label, "coordinates": _numbers(coordinates)}
            case _:
                raise _Reject(BAD_VALUE)

    def _ranking(self, entries: list[Entry]) -> list[str]:
        best_worst = {entry.name: entry.value for entry in entries if entry.name in ("best", "worst")}
        if len(best_worst) == 2:
            return self._permutation([best_worst["best"], best_worst["worst"]])
        value = _only([entry.value for entry in entries])
        listed = _json_list(value)
        if listed is not None:
            return self._permutation(listed)
        if not isinstance(value, str):
            raise _Reject(BAD_VALUE, str(value)[:40])
        return self._permutation(_split_labels(value, self._known) or value.split(","))

    def _permutation(self, parts: Sequence[Any]) -> list[str]:
        order = [self._known_label([part.strip() if isinstance(part, str) else part]) for part in parts]
        if len(set(order)) != len(order):
            raise _Reject(BAD_VALUE, ",".join(order)[:40])
        return order


def _is_unset(value: Any) -> bool:
    """An emptied box or an unticked one."""
    return value is None or value is False or value == ""


def _only(values: list[Any]) -> Any:
    """The one value of a scheme that takes one answer."""
    if not values:
        raise _Reject(NOTHING)
    if any(value != values[0] for value in values[1:]):
        raise _Reject(SEVERAL)
    return values[0]


def _label_text(value: Any) -> str:
    """A label as text: 3 and 3.0 are "3"; "" for what can be no label."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value)


def _json_list(value: Any) -> list[Any] | None:
    """The list that a value is, or holds as a JSON text; None for anything else."""
    if isinstance(value, list):
        return value
    if not isinstance(value, str) or not value.lstrip().startswith("["):
        return None
    try:
        parsed = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return parsed if isinstance(parsed, list) else None


def _numbers(value: Any) -> Any:
    """Coordinates with every number a float, so that equal shapes are equal values."""
    if isinstance(value, dict):
        return {clean(str(key)): _numbers(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_numbers(part) for part in value]
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise _Reject(BAD_VALUE)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise _Reject(BAD_VALUE)
    return number + 0.0


def _split_labels(text: str, known: frozenset[str]) -> list[str]:
    """A comma-separated list of known labels, which may hold commas themselves; [] where none fits."""
    parts = text.split(",")
    found: list[str] = []
    start = 0
    while start < len(parts):
        for end in range(len(parts), start, -1):
            label = ",".join(parts[start:end]).strip()
            if label in known:
                found.append(label)
                start = end
                break
        else:
            return []
    return found
