"""What was counted while annotations were read, as numbers and as sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from potato_ray.project.items import named
from potato_ray.project.values import BAD_VALUE, SEVERAL, UNKNOWN_LABEL, Rejected

_SHOWN = 5


@dataclass
class Findings:
    """Counts over all annotators. `missing` holds the ids of annotated items that the data lack."""

    annotators: int = 0
    machines: int = 0
    unreadable: int = 0
    empty: int = 0
    seeded: int = 0
    malformed: int = 0
    without_item: int = 0
    span_rejects: int = 0
    rejects: Counter[str] = field(default_factory=Counter)
    unknown_labels: Counter[str] = field(default_factory=Counter)
    bad_values: Counter[str] = field(default_factory=Counter)
    by_scheme: Counter[str] = field(default_factory=Counter)
    missing: dict[str, None] = field(default_factory=dict)

    def add_without_item(self, instance_id: str) -> None:
        self.without_item += 1
        self.missing[instance_id] = None

    def add_rejected(self, rejected: Rejected) -> None:
        self.rejects[rejected.reason] += 1
        if rejected.reason == UNKNOWN_LABEL:
            self.unknown_labels[rejected.detail] += 1
        elif rejected.reason == BAD_VALUE:
            self.bad_values[rejected.detail] += 1

    def stats(self, n_answers: int) -> dict[str, Any]:
        """The counts under the names of AnnotationReading.stats."""
        return {
            "n_annotators": self.annotators,
            "n_machine_annotators": self.machines,
            "n_unreadable_files": self.unreadable,
            "n_answers": n_answers,
            "n_empty_answers": self.empty,
            "n_seeded_answers": self.seeded,
            "n_double_answers": self.rejects[SEVERAL],
            "n_unknown_label_answers": self.rejects[UNKNOWN_LABEL],
            "n_bad_value_answers": self.rejects[BAD_VALUE],
            "n_rejected_span_answers": self.span_rejects,
            "n_malformed_entries": self.malformed,
            "n_answers_without_item": self.without_item,
            "answers_by_scheme": dict(sorted(self.by_scheme.items())),
        }

    def sentences(self, scheme_name: str, known_schemes: frozenset[str]) -> Iterator[str]:
        """What the counts mean for the people of the study: what happened, which, what to do."""
        yield from self._foreign_schemes(known_schemes)
        yield from self._left_out(scheme_name)
        if self.malformed:
            yield f"{self.malformed} stored entry(ies) have a form that is not known, and were left out."

    def _foreign_schemes(self, known_schemes: frozenset[str]) -> Iterator[str]:
        foreign = Counter({key: n for key, n in self.by_scheme.items() if key not in known_schemes})
        if foreign:
            yield (
                f"{foreign.total()} answer(s) belong to schemes that are not in the configuration: "
                f"{_ranked(foreign)}. If such a scheme was renamed, give it its old name back in "
                "annotation_schemes: answers are stored under the name of their time."
            )

    def _left_out(self, name: str) -> Iterator[str]:
        rejects = self.rejects
        why = f"answer(s) to {name!r} were left out because"
        if rejects[UNKNOWN_LABEL]:
            yield (
                f"{rejects[UNKNOWN_LABEL]} {why} the scheme does not have their label: "
                f"{_ranked(self.unknown_labels)}. If a label was renamed, put its old name back."
            )
        if rejects[SEVERAL]:
            yield (
                f"{rejects[SEVERAL]} {why} one annotator gave several for the same item. "
                "Ask for a new answer to these items."
            )
        if rejects[BAD_VALUE]:
            yield (
                f"{rejects[BAD_VALUE]} {why} their value cannot be read: {_ranked(self.bad_values)}. "
                "Ask for a new answer to these items."
            )
        if self.span_rejects:
            yield (
                f"{self.span_rejects} {why} a span does not lie within the displayed text. "
                "The text may have changed since; annotate these items again."
            )
        if self.missing:
            yield (
                f"{self.without_item} {why} their {len(self.missing)} item(s) are not in the data files: "
                f"{named(list(self.missing))}. Put these items back if they still belong to the study."
            )


def _ranked(counter: Counter[str]) -> str:
    """The most frequent ones, each with its count."""
    shown = ", ".join(f"{key!r} ({count})" for key, count in counter.most_common(_SHOWN))
    return shown if len(counter) <= _SHOWN else f"{shown} and {len(counter) - _SHOWN} more"
