"""All annotators' answers to one scheme, read from a project's annotation folder."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from potato_ray.project.answers import AnswerTable
from potato_ray.project.columns import value_columns
from potato_ray.project.displayed import DisplayedText
from potato_ray.project.findings import Findings
from potato_ray.project.items import read_items
from potato_ray.project.paths import ProjectPaths
from potato_ray.project.polling import StopPoll, never
from potato_ray.project.schemes import Scheme
from potato_ray.project.user_state import (
    FILE_NAME,
    Entry,
    StateUnreadable,
    UserState,
    annotator_folders,
    read_user_state,
)
from potato_ray.project.values import NOTHING, Interpreter, Rejected
from potato_ray.trainers import kinds

_ABSENCE_ANSWERS = (kinds.MULTILABEL, kinds.SPAN)


@dataclass(frozen=True)
class AnnotationReading:
    """What the annotators said about one scheme.

    `answered` are the items of the data for which a human stored anything for the scheme, usable or
    not; `seeded` those where an answer in the table began as a pre-label. `stats` holds counts:
    n_annotators, n_machine_annotators, n_unreadable_files, n_answers, n_empty_answers, n_seeded_answers,
    n_double_answers, n_unknown_label_answers, n_bad_value_answers, n_rejected_span_answers,
    n_malformed_entries, n_answers_without_item, and answers_by_scheme (a count per scheme name).
    """

    table: AnswerTable
    answered: frozenset[str]
    seeded: frozenset[str]
    warnings: tuple[str, ...]
    stats: dict[str, Any]


def read_answers(
    paths: ProjectPaths,
    scheme: Scheme,
    known_items: Mapping[str, int],
    *,
    known_schemes: Collection[str] | None = None,
    on_annotator: Callable[[int, int], None] = lambda done, total: None,
    should_stop: Callable[[], bool] = never,
) -> AnnotationReading:
    """The answers to `scheme`; `known_items` maps the ids of the data to their positions, in order.

    `known_schemes` are the names in the configuration: annotations under any other name are warned of.
    Folders with a non-empty `origin` are machines and are left out. A torn or foreign file is a warning.
    For multiselect and span schemes, an annotator who answered another scheme of an item, and this
    scheme somewhere, but marked nothing here, has answered "none", unless the scheme is required.
    Raises Cancelled, and ProjectUnreadable where the texts are needed (spans) and cannot be read.
    """
    collector = _Collector(paths, scheme, known_items)
    poll = StopPoll(should_stop)
    folders = annotator_folders(paths.output_dir)
    for number, folder in enumerate(folders, start=1):
        poll.now()
        collector.add_folder(folder, poll)
        on_annotator(number, len(folders))
    if scheme.kind == kinds.SPAN:
        collector.place_spans(poll)
    return collector.finish(known_schemes)


class _Collector:
    """Gathers the answers of one folder after another."""

    def __init__(self, paths: ProjectPaths, scheme: Scheme, known_items: Mapping[str, int]) -> None:
        self._paths = paths
        self._scheme = scheme
        self._known_items = known_items
        self._interpret = Interpreter(scheme)
        self._folders: dict[str, str] = {}
        self._item_positions = array("i")
        self._annotator_numbers = array("i")
        self._values: list[Any] = []
        self._answered: set[str] = set()
        self._seeded: set[str] = set()
        self._findings = Findings()
        self._warnings: list[str] = []

    def add_folder(self, folder: Path, poll: StopPoll) -> None:
        shown = self._paths.shown(folder / FILE_NAME)
        try:
            state = read_user_state(folder, self._scheme.name, poll)
        except StateUnreadable as error:
            self._findings.unreadable += 1
            self._warnings.append(
                f"{shown} (annotator {folder.name!r}) could not be read and was left out: {error}. "
                "The file was not changed; restore it from a backup and run again."
            )
            return
        if state.is_machine:
            self._findings.machines += 1
        elif state.annotator in self._folders:
            self._warnings.append(
                f"{shown} was left out: its user_id {state.annotator!r} is also that of the folder "
                f"{self._folders[state.annotator]!r}. Move the copy out of the annotations."
            )
        else:
            self._folders[state.annotator] = folder.name
            self._add_state(state, poll)

    def _add_state(self, state: UserState, poll: StopPoll) -> None:
        self._findings.annotators += 1
        self._findings.malformed += state.n_malformed
        self._findings.by_scheme.update(state.counts)
        for instance_id, entries in state.entries.items():
            poll()
            if instance_id in self._known_items:
                self._add_entries(instance_id, entries, state)
            else:
                self._findings.add_without_item(instance_id)
        if self._absence_is_an_answer(state):
            for instance_id in sorted(state.elsewhere - state.entries.keys()):
                if instance_id in self._known_items:
                    self._findings.empty += 1
                    self._append(instance_id, (), state)

    def _add_entries(self, instance_id: str, entries: list[Entry], state: UserState) -> None:
        answer = self._interpret(entries)
        if not isinstance(answer, Rejected):
            self._append(instance_id, answer, state)
            return
        self._findings.add_rejected(answer)
        if answer.reason != NOTHING:
            self._answered.add(instance_id)

    def _append(self, instance_id: str, answer: Any, state: UserState) -> None:
        self._answered.add(instance_id)
        self._item_positions.append(self._known_items[instance_id])
        self._annotator_numbers.append(len(self._folders) - 1)
        self._values.append(answer)
        if instance_id in state.seeded:
            self._findings.seeded += 1
            self._seeded.add(instance_id)

    def _absence_is_an_answer(self, state: UserState) -> bool:
        """Only of an annotator who used the scheme at all: it may be younger than the other answers."""
        requirement = self._scheme.options.get("label_requirement")
        required = isinstance(requirement, Mapping) and requirement.get("required")
        return self._scheme.kind in _ABSENCE_ANSWERS and bool(state.entries) and not required

    def place_spans(self, poll: StopPoll) -> None:
        """Turn offsets into the displayed text into raw ones; drop the answers that don't fit."""
        by_position: dict[int, list[int]] = {}
        for k, position in enumerate(self._item_positions):
            by_position.setdefault(position, []).append(k)
        for item in read_items(self._paths):
            poll()
            answers = by_position.pop(self._known_items.get(item.instance_id, -1), ())
            displayed = DisplayedText("" if item.texts else item.text) if answers else None
            for k in answers:
                self._values[k] = _raw_spans(self._values[k], displayed)
        self._drop_unplaced()

    def _drop_unplaced(self) -> None:
        kept = [k for k, value in enumerate(self._values) if isinstance(value, list)]
        self._findings.span_rejects = len(self._values) - len(kept)
        self._item_positions = array("i", (self._item_positions[k] for k in kept))
        self._annotator_numbers = array("i", (self._annotator_numbers[k] for k in kept))
        self._values = [self._values[k] for k in kept]

    def finish(self, known_schemes: Collection[str] | None) -> AnnotationReading:
        table = self._table()
        findings = self._findings
        known = findings.by_scheme if known_schemes is None else known_schemes
        sentences = findings.sentences(self._scheme.name, frozenset(known) | {self._scheme.name})
        return AnnotationReading(
            table,
            frozenset(self._answered),
            frozenset(self._seeded),
            (*self._warnings, *sentences),
            findings.stats(table.n_answers),
        )

    def _table(self) -> AnswerTable:
        positions = np.array(self._item_positions, dtype=np.int32)
        numbers = np.array(self._annotator_numbers, dtype=np.int32)
        order = np.lexsort((numbers, positions))
        items, item_index = np.unique(positions[order], return_inverse=True)
        people, annotator_index = np.unique(numbers[order], return_inverse=True)
        ids, names = list(self._known_items), list(self._folders)
        return AnswerTable(
            items=[ids[position] for position in items],
            annotators=[names[number] for number in people],
            item_index=item_index.astype(np.int32),
            annotator_index=annotator_index.astype(np.int32),
            **value_columns(self._scheme, [self._values[k] for k in order]),
        )


def _raw_spans(spans: tuple[tuple[int, int, str], ...], displayed: DisplayedText | None) -> Any:
    """Spans as a target, or None where one of them is not in the text."""
    found: list[dict[str, Any]] = []
    for start, end, label in spans:
        raw = displayed.raw_span(start, end) if displayed else None
        if raw is None:
            return None
        found.append({"start": raw[0], "end": raw[1], "label": label})
    return found
