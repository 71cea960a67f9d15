"""One annotator's user_state.json, as Potato writes it; read tolerantly, never written to."""

from __future__ import annotations

import contextlib
import os
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, TextIO

from potato_ray.project.json_stream import JsonStream, JsonTorn
from potato_ray.project.text_fields import clean

FILE_NAME = "user_state.json"
PAUSES_S = (0.0, 0.05, 0.2)
"""Before a file that changes is read again."""
_LABELS = "instance_id_to_label_to_value"
_SPANS = "instance_id_to_span_to_value"
_BEHAVIOUR = "instance_id_to_behavioral_data"


class StateUnreadable(Exception):
    """The file is torn, or something else than an annotator's state; the message is the reason."""


class Entry(NamedTuple):
    """One stored value: `name` and `value` as they stand, `spec` the object that named the scheme."""

    name: Any
    value: Any
    spec: Mapping[str, Any]


@dataclass
class UserState:
    """What one annotator stored for one scheme.

    `entries` holds the scheme's entries by item, `elsewhere` the items that have an entry of another
    scheme, `counts` the number of items with an entry by scheme name, `seeded` the items whose answer to
    the scheme began as a pre-label. `origin` is true for a machine annotator.
    """

    annotator: str
    is_machine: bool = False
    entries: dict[str, list[Entry]] = field(default_factory=dict)
    elsewhere: set[str] = field(default_factory=set)
    counts: Counter[str] = field(default_factory=Counter)
    seeded: set[str] = field(default_factory=set)
    n_malformed: int = 0


def annotator_folders(output_dir: Path) -> list[Path]:
    """The folders that hold a user_state.json, sorted by name; none where `output_dir` is missing."""
    try:
        folders = sorted(output_dir.iterdir())
    except OSError:
        return []
    return [folder for folder in folders if (folder / FILE_NAME).is_file()]


def read_user_state(folder: Path, scheme_name: str, on_item: Callable[[], None]) -> UserState:
    """The entries of `scheme_name` in `folder`; `on_item` is called once an item and may raise to stop.

    A file that is being replaced or written is tried again: what is returned is the file as it stood at
    one moment. Raises StateUnreadable for anything that is no annotator's state, whole.
    """
    for pause_s in PAUSES_S:
        with contextlib.suppress(FileNotFoundError, _Changing):
            return _read(folder, scheme_name, on_item)
        time.sleep(pause_s)
    try:
        return _read(folder, scheme_name, on_item)
    except _Changing:
        raise StateUnreadable("it went on being written while it was read") from None
    except FileNotFoundError as error:
        raise StateUnreadable(error.strerror or "it could not be opened") from None


class _Changing(Exception):
    """Somebody wrote into the file while it was read."""


def _read(folder: Path, scheme_name: str, on_item: Callable[[], None]) -> UserState:
    try:
        with (folder / FILE_NAME).open(encoding="utf-8-sig") as handle:
            before = _stamp(handle)
            try:
                state = _StateReader(JsonStream(handle), folder.name, scheme_name, on_item).read()
            except (JsonTorn, StateUnreadable) as error:
                _check_unchanged(handle, before)
                raise StateUnreadable(str(error)) from None
            _check_unchanged(handle, before)
            return state
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StateUnreadable(error.strerror or "it could not be opened") from None


def _check_unchanged(handle: TextIO, before: tuple[int, int]) -> None:
    if _stamp(handle) != before:
        raise _Changing


def _stamp(handle: TextIO) -> tuple[int, int]:
    """What every write into an open file changes."""
    details = os.fstat(handle.fileno())
    return details.st_size, details.st_mtime_ns


class _StateReader:
    """Walks through the file item by item, so that the long behavioural records never pile up."""

    def __init__(
        self, stream: JsonStream, annotator: str, scheme_name: str, on_item: Callable[[], None]
    ) -> None:
        self._stream = stream
        self._scheme_name = scheme_name
        self._on_item = on_item
        self._state = UserState(annotator)
        self._is_state = False

    def read(self) -> UserState:
        if self._stream.peek() != "{":
            raise StateUnreadable("it holds no JSON object")
        for key in self._stream.members():
            self._member(key)
        if self._stream.peek():
            raise StateUnreadable("there is more text behind its end")
        if not self._is_state:
            raise StateUnreadable("it holds no annotations, so it is no annotator's state")
        return self._state

    def _member(self, key: str) -> None:
        if key in (_LABELS, _SPANS):
            self._is_state = True
            self._each_item(key, self._stored)
        elif key == _BEHAVIOUR and self._stream.peek() == "{":
            self._each_item(key, self._behaviour)
        elif key == "user_id":
            self._user_id(self._stream.value())
        elif key == "origin":
            self._state.is_machine = bool(self._stream.value())
        else:
            self._stream.skip()

    def _each_item(self, key: str, use: Callable[[str, Any], None]) -> None:
        """Null is a section without items."""
        if self._stream.peek() != "{":
            if self._stream.value() is None:
                return
            raise StateUnreadable(f"its {key} is no object")
        for instance_id in self._stream.members():
            use(clean(instance_id), self._stream.value())
            self._on_item()

    def _user_id(self, value: Any) -> None:
        if isinstance(value, (str, int)) and not isinstance(value, bool) and str(value).strip():
            self._state.annotator = clean(str(value))

    def _behaviour(self, instance_id: str, value: Any) -> None:
        seeds = value.get("pre_annotation_seeds") if isinstance(value, dict) else None
        if isinstance(seeds, dict) and self._scheme_name in seeds:
            self._state.seeded.add(instance_id)

    def _stored(self, instance_id: str, value: Any) -> None:
        state = self._state
        own: list[Entry] = []
        others: set[str] = set()
        for scheme_name, entry in self._entries(value):
            if scheme_name == self._scheme_name:
                own.append(entry)
            else:
                others.add(scheme_name)
        if own:
            state.counts[self._scheme_name] += 1
            state.entries.setdefault(instance_id, []).extend(own)
        if others:
            state.counts.update(others)
            state.elsewhere.add(instance_id)

    def _entries(self, value: Any) -> Iterator[tuple[str, Entry]]:
        """The entries of one item: a list of [spec, value], or in old files {scheme: {name: value}}."""
        if isinstance(value, dict):
            yield from self._old_entries(value)
        elif isinstance(value, list):
            for pair in value:
                spec, stored = pair if isinstance(pair, list) and len(pair) == 2 else (None, None)
                scheme_name = spec.get("schema") if isinstance(spec, dict) else None
                if spec is not None and isinstance(scheme_name, str):
                    yield scheme_name, Entry(spec.get("name"), stored, spec)
                else:
                    self._state.n_malformed += 1
        elif value is not None:
            self._state.n_malformed += 1

    def _old_entries(self, value: dict[str, Any]) -> Iterator[tuple[str, Entry]]:
        for scheme_name, stored_by_name in value.items():
            if not isinstance(stored_by_name, dict):
                self._state.n_malformed += 1
                continue
            for name, stored in stored_by_name.items():
                yield scheme_name, Entry(name, stored, {"schema": scheme_name, "name": name})
