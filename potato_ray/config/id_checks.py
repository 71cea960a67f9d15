"""The check that no two items have one id, for data that are small enough to be read whole."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from potato_ray.config.document import Document, KeyPath
from potato_ray.config.spelling import shown

MAX_BYTES = 20_000_000
"""All data files together; the ids of larger data are checked when a bundle is built."""

_PACKED = ".parquet"
"""Packed data may hold far more items than their size says, and are slow to open."""


@dataclass(frozen=True)
class DataFile:
    """A data file: the entry that names it, its name as written, and its absolute path."""

    entry: KeyPath
    written: str
    path: Path


def check_ids(document: Document, files: Sequence[DataFile]) -> None:
    """Every item has an id of its own; one error for each file that repeats ids."""
    id_key = document.text("item_properties", "id_key")
    plain = [file for file in files if file.path.suffix.lower() != _PACKED]
    if not id_key or not _are_small(plain):
        return
    places: dict[str, str] = {}
    for file in plain:
        repeated = list(_repeated(document, file, id_key, places))
        if repeated:
            more = f", and {len(repeated) - 1} more stand twice" if len(repeated) > 1 else ""
            document.error(file.entry, f"{repeated[0]}{more}; ids must differ", "duplicate_id")


def _are_small(files: Sequence[DataFile]) -> bool:
    try:
        return sum(file.path.stat().st_size for file in files) <= MAX_BYTES
    except OSError:
        return False


def _repeated(document: Document, file: DataFile, id_key: str, places: dict[str, str]) -> Iterator[str]:
    """Each id of the file that is taken, with both places; the others are added to `places`."""
    from potato_ray.errors import ProjectUnreadable
    from potato_ray.project.items import id_of
    from potato_ray.project.records import read_records

    try:
        for number, record in read_records(file.path, file.written):
            instance_id, place = id_of(record, id_key), f"record {number} of {file.written}"
            if instance_id in places:
                yield f"the id {shown(instance_id)} stands twice, in {places[instance_id]} and in {place}"
            elif instance_id:
                places[instance_id] = place
    except ProjectUnreadable as failure:
        message = f"{failure.message} {failure.evidence}".strip()
        document.error(file.entry, message, "data_file_unreadable")
    except RecursionError:
        message = f"The data file {file.written} is nested too deeply"
        document.error(file.entry, message, "data_file_unreadable")
