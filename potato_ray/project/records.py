"""The records of a data file, one at a time: .json, .jsonl, .csv, .tsv and .parquet."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from potato_ray.errors import ProjectUnreadable
from potato_ray.project.json_stream import JsonStream, JsonTorn
from potato_ray.trainers.installing import into_this_python

KEY_OF_RECORD = "\0key"
"""Under this name a record of an object of objects has its key; no data file names a field like that."""

_BATCH = 1000
_MAX_FIELD = 2**31 - 1


@dataclass(frozen=True)
class FileRole:
    """What a file of records is for, as errors speak of it: what it is called, and what to do about it."""

    noun: str
    when_missing: str
    when_torn: str
    when_no_object: str


DATA_FILE = FileRole(
    noun="data file",
    when_missing="Correct data_files in the configuration.",
    when_torn="Repair the file, or take it out of data_files.",
    when_no_object="Give every item an id and a text field.",
)


class _Torn(ValueError):
    """A file that is not what its name says."""


def read_records(path: Path, shown: str, role: FileRole = DATA_FILE) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, record) of every record, numbers from 1; `shown` names the file in errors.

    A .json file is an array of objects, an object of objects (the keys are then ids, under
    KEY_OF_RECORD in the record), or JSON lines. Raises ProjectUnreadable.
    """
    reader = _READERS.get(path.suffix.lower())
    if reader is None:
        known = ", ".join(sorted(_READERS))
        raise ProjectUnreadable(
            f"The {role.noun} {shown} has a format that is not read.", next_step=f"Use one of {known}."
        )
    number = 0
    try:
        for number, record in enumerate(reader(path), start=1):
            if not isinstance(record, Mapping):
                raise _not_an_object(shown, number, role)
            yield number, dict(record)
    except FileNotFoundError:
        raise ProjectUnreadable(
            f"The {role.noun} {shown} does not exist.", next_step=role.when_missing
        ) from None
    except (OSError, JsonTorn, _Torn, csv.Error, UnicodeDecodeError) as error:
        raise ProjectUnreadable(
            f"The {role.noun} {shown} cannot be read.",
            evidence=f"After record {number}: {_reason(error)}.",
            next_step=role.when_torn,
        ) from None


def _not_an_object(shown: str, number: int, role: FileRole) -> ProjectUnreadable:
    return ProjectUnreadable(
        f"Record {number} of the {role.noun} {shown} is no object with fields.",
        next_step=role.when_no_object,
    )


def _reason(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"it is not UTF-8 ({error.reason})"
    return error.strerror or "it could not be opened" if isinstance(error, OSError) else str(error)


def _open(path: Path, newline: str | None = None) -> TextIO:
    return path.open(encoding="utf-8-sig", newline=newline)


def _json(path: Path) -> Iterator[Any]:
    with _open(path) as handle:
        stream = JsonStream(handle)
        if stream.peek() == "[":
            yield from stream.array()
            _expect_end(stream)
        elif stream.peek() == "{":
            yield from _json_objects(stream)
        else:
            raise _Torn("it holds neither an array nor an object")


def _json_objects(stream: JsonStream) -> Iterator[Any]:
    """JSON lines, or one object of objects."""
    first = stream.value()
    if stream.peek() == "" and first and all(isinstance(value, dict) for value in first.values()):
        for key, value in first.items():
            yield {**value, KEY_OF_RECORD: key}
        return
    yield first
    while stream.peek():
        yield stream.value()


def _expect_end(stream: JsonStream) -> None:
    if stream.peek():
        raise _Torn("there is more text behind the end of the array")


def _jsonl(path: Path) -> Iterator[Any]:
    with _open(path) as handle:
        for number, line in enumerate(handle, start=1):
            if not line.strip():
                continue
            try:
                yield json.loads(line)
            except (ValueError, RecursionError) as error:
                why = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
                raise _Torn(f"{why} (line {number})") from None


def _csv(path: Path) -> Iterator[Any]:
    return _table(path, ",")


def _tsv(path: Path) -> Iterator[Any]:
    return _table(path, "\t")


def _table(path: Path, delimiter: str) -> Iterator[Any]:
    csv.field_size_limit(_MAX_FIELD)
    with _open(path, newline="") as handle:
        for row in csv.DictReader(handle, delimiter=delimiter, strict=True):
            yield {key: value for key, value in row.items() if key is not None}


def _parquet(path: Path) -> Iterator[Any]:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise ProjectUnreadable(
            f"The file {path.name} needs pyarrow, which is not installed.",
            code="missing_dependency",
            next_step="Run: " + into_this_python("pip install 'potato-ray[parquet]'"),
        ) from None
    try:
        with parquet.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=_BATCH):
                yield from batch.to_pylist()
    except pyarrow.ArrowException as error:
        raise _Torn(f"it is no parquet file: {error}") from None


_READERS: Mapping[str, Callable[[Path], Iterator[Any]]] = {
    ".json": _json,
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".tsv": _tsv,
    ".parquet": _parquet,
}
