"""Checks of the data files: that they are there, and that their items have what the configuration names."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from potato_ray.config.document import Document, KeyPath
from potato_ray.config.id_checks import DataFile, check_ids
from potato_ray.config.spelling import closest, listed


def check_data(document: Document) -> None:
    """Every data file can be read, the first record of each has the id and the text, no id is there twice."""
    readable = []
    for path, written, resolved in _data_files(document):
        if _is(Path.is_file, resolved):
            if _check_first_record(document, path, written, resolved):
                readable.append(DataFile(path, written, resolved))
            continue
        what = "is a folder" if _is(Path.is_dir, resolved) else "not found"
        document.error(path, f"Data file {what}: {written} (resolved to: {resolved})", "data_file_missing")
    check_ids(document, readable)


def _data_files(document: Document) -> Iterator[tuple[KeyPath, str, Path]]:
    """Path of the entry, the file as written, and its absolute path."""
    folder = document.path.parent / document.text("task_dir", default=".")
    for index, entry in enumerate(document.list("data_files")):
        written = entry.get("path") if isinstance(entry, dict) else entry
        if isinstance(written, str) and written:
            yield ("data_files", index), written, _resolved(folder / written)


def _resolved(path: Path) -> Path:
    try:
        return Path(os.path.realpath(path))
    except ValueError:
        # A NUL character or half a surrogate pair: there is no such file.
        return path.absolute()


def _is(test: Callable[[Path], bool], path: Path) -> bool:
    try:
        return test(path)
    except OSError:
        return False


def _check_first_record(document: Document, path: KeyPath, written: str, resolved: Path) -> bool:
    """Whether the file has a first record."""
    from potato_ray.errors import ProjectUnreadable
    from potato_ray.project.records import read_records

    try:
        number_and_record = next(iter(read_records(resolved, written)), None)
    except ProjectUnreadable as failure:
        document.error(path, f"{failure.message} {failure.evidence}".strip(), "data_file_unreadable")
        return False
    except RecursionError:
        document.error(path, f"The data file {written} is nested too deeply", "data_file_unreadable")
        return False
    if number_and_record is None:
        document.error(path, f"The data file {written} holds no item", "data_file_unreadable")
        return False
    _check_fields(document, written, number_and_record[1])
    return True


def _check_fields(document: Document, written: str, record: dict[str, Any]) -> None:
    from potato_ray.project.records import KEY_OF_RECORD

    fields = [name for name in record if name != KEY_OF_RECORD]
    for key in ("id_key", "text_key"):
        wanted = document.text("item_properties", key)
        if not wanted or wanted in fields or (key == "id_key" and KEY_OF_RECORD in record):
            continue
        document.error(
            ("item_properties", key),
            _lacks(written, wanted, fields),
            "field_missing",
            closest(wanted, fields),
        )
    group = document.text("model_training", "group_key")
    if group and group not in fields:
        path = ("model_training", "group_key")
        document.warn(path, _lacks(written, group, fields), "field_missing", closest(group, fields))


def _lacks(written: str, wanted: str, fields: list[str]) -> str:
    has = listed(fields[:20], "and") or "none"
    return f"the first item of {written} has no field {wanted}; its fields are {has}"
