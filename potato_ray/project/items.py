"""The items of a project, streamed from its data files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import isnan
from typing import Any

from potato_ray.errors import ProjectUnreadable
from potato_ray.project.paths import ProjectPaths
from potato_ray.project.records import KEY_OF_RECORD, read_records
from potato_ray.project.text_fields import clean, joined, readable

_NAMED = 3
KEPT_BYTES = 16_000_000
"""Data files of this size together are read once and their items kept, at some five times that in memory."""


@dataclass(frozen=True)
class Item:
    """One item. `text` is what a model reads; `texts` are its parts where the data hold a list.

    `cleaned` says that a lone surrogate was replaced in it. `fields` is the record as it stands,
    `file_number` the position of its file in ProjectPaths.data_paths, `record` its number there.
    """

    instance_id: str
    text: str
    texts: tuple[str, ...]
    cleaned: bool
    fields: Mapping[str, Any]
    file_number: int
    record: int

    @property
    def is_empty(self) -> bool:
        return not self.text.strip() or (bool(self.texts) and not any(part.strip() for part in self.texts))


@dataclass(frozen=True)
class ItemIndex:
    """What is kept of all items while their texts stay on disk.

    `positions` maps each id to its place in the data, in order. `groups` holds the value of the
    group key as text, or None where an item has none; it is empty when there is no group key. `items`
    are the items themselves where their files are small (KEPT_BYTES), else None: read them again.
    """

    positions: dict[str, int]
    empty: frozenset[str]
    n_cleaned: int
    n_media: int
    groups: list[str | None]
    warnings: tuple[str, ...]
    items: list[Item] | None = None

    @property
    def ids(self) -> list[str]:
        return list(self.positions)


def read_items(paths: ProjectPaths) -> Iterator[Item]:
    """Every item of every data file, in order; ids are not checked for duplicates here.

    Raises ProjectUnreadable for a file that cannot be read or a record without an id.
    """
    for file_number, path in enumerate(paths.data_paths):
        shown = paths.shown(path)
        for number, record in read_records(path, shown):
            yield _item(paths, record, file_number, number)


def index_items(
    paths: ProjectPaths,
    group_key: str | None = None,
    is_media: Callable[[str], bool] = lambda text: False,
    on_item: Callable[[int], None] = lambda count: None,
) -> ItemIndex:
    """Read all items once and keep their ids and a few counts.

    `is_media` tells a file name from a text; `on_item` gets the number of items read so far and may
    raise to stop. Raises ProjectUnreadable for duplicate ids, naming the id and both places.
    """
    draft = _IndexDraft(paths, group_key, is_media)
    for count, item in enumerate(read_items(paths), start=1):
        draft.add(item)
        on_item(count)
    return draft.finish()


class _IndexDraft:
    """An ItemIndex while it grows."""

    def __init__(self, paths: ProjectPaths, group_key: str | None, is_media: Callable[[str], bool]) -> None:
        self._paths = paths
        self._group_key = group_key
        self._is_media = is_media
        self._positions: dict[str, int] = {}
        self._empty: set[str] = set()
        self._cleaned: list[str] = []
        self._groups: list[str | None] = []
        self._interned: dict[str, str] = {}
        self._n_media = 0
        self._n_with_text_field = 0
        self._items: list[Item] | None = [] if _size_of(paths) <= KEPT_BYTES else None

    def add(self, item: Item) -> None:
        if item.instance_id in self._positions:
            raise self._duplicate(item)
        self._positions[item.instance_id] = len(self._positions)
        if item.is_empty:
            self._empty.add(item.instance_id)
        if item.cleaned:
            self._cleaned.append(item.instance_id)
        self._n_media += self._is_media(item.text)
        self._n_with_text_field += self._paths.text_key in item.fields
        if self._group_key is not None:
            self._groups.append(self._group(item.fields.get(self._group_key)))
        if self._items is not None:
            self._items.append(item)

    def finish(self) -> ItemIndex:
        if self._positions and not self._n_with_text_field:
            raise ProjectUnreadable(
                f"No item has the field {self._paths.text_key!r}.",
                next_step="Set item_properties.text_key to the field that holds the text.",
            )
        return ItemIndex(
            self._positions,
            frozenset(self._empty),
            len(self._cleaned),
            self._n_media,
            self._groups,
            tuple(self._warnings()),
            self._items,
        )

    def _group(self, value: Any) -> str | None:
        if value is None or value == "":
            return None
        text = clean(readable(value))
        return self._interned.setdefault(text, text)

    def _warnings(self) -> Iterator[str]:
        if self._cleaned:
            yield (
                f"{len(self._cleaned)} text(s) hold broken characters (lone surrogates), which were replaced "
                f"by U+FFFD: {named(self._cleaned)}."
            )
        missing = self._groups.count(None)
        if missing:
            yield (
                f"{missing} item(s) lack {self._group_key!r} (group_key); each of them is split by its id."
            )

    def _duplicate(self, item: Item) -> ProjectUnreadable:
        first = next(other for other in read_items(self._paths) if other.instance_id == item.instance_id)
        return ProjectUnreadable(
            f"Two items have the id {item.instance_id!r}.",
            code="duplicate_id",
            evidence=f"They are {_place(self._paths, first)} and {_place(self._paths, item)}.",
            next_step="Give each item an id of its own.",
        )


def _size_of(paths: ProjectPaths) -> int:
    """Bytes of the data files; one that is missing is told of when it is read."""
    return sum(path.stat().st_size for path in paths.data_paths if path.is_file())


def counted(number: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def named(ids: list[str], most: int = _NAMED) -> str:
    """At most `most` of the ids, and how many more there are."""
    shown = ", ".join(map(repr, ids[:most]))
    return shown if len(ids) <= most else f"{shown} and {len(ids) - most} more"


def _place(paths: ProjectPaths, item: Item) -> str:
    return f"record {item.record} of {paths.shown(paths.data_paths[item.file_number])}"


def _item(paths: ProjectPaths, record: dict[str, Any], file_number: int, number: int) -> Item:
    instance_id = id_of(record, paths.id_key)
    record.pop(KEY_OF_RECORD, None)
    if not instance_id:
        raise ProjectUnreadable(
            f"Record {number} of the data file {paths.shown(paths.data_paths[file_number])} has no id.",
            evidence=f"Its fields are {', '.join(map(repr, list(record)[:10])) or 'none'}.",
            next_step=f"Give it a field {paths.id_key!r}, or set item_properties.id_key to the right one.",
        )
    value = record.get(paths.text_key)
    raw = [readable(part) for part in value] if isinstance(value, (list, tuple)) else None
    text = readable(value) if raw is None else joined(raw, paths.list_prefix)
    cleaned = clean(text)
    texts = () if raw is None else tuple(map(clean, raw))
    return Item(instance_id, cleaned, texts, cleaned != text, record, file_number, number)


def id_of(record: Mapping[str, Any], id_key: str) -> str:
    """The id of a record of read_records as text; "" for none, and for a value that can be no id."""
    value = record.get(id_key, record.get(KEY_OF_RECORD))
    if value is None or isinstance(value, (dict, list)) or (isinstance(value, float) and isnan(value)):
        return ""
    return clean(str(value))
