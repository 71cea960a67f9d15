"""Writing a bundle's folder: aside first, then in its place as a whole."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from potato_ray.bundle.reading import split_file
from potato_ray.bundle.split_names import ALL

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False).encode


@contextmanager
def folder_in_place(folder: Path) -> Iterator[Path]:
    """An empty folder beside `folder` that takes its place when the block ends well, and goes otherwise.

    What an earlier build left behind when it was killed is removed.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    prefix = f".{folder.name}.building-"
    for left in folder.parent.glob(f"{prefix}*"):
        shutil.rmtree(left, ignore_errors=True)
    aside = Path(tempfile.mkdtemp(dir=folder.parent, prefix=prefix))
    try:
        yield aside
        if folder.exists():
            shutil.rmtree(folder)
        aside.rename(folder)
        _sync_folder(folder.parent)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


class SplitFiles:
    """The split files while they are written, and their numbers of rows and items."""

    def __init__(self, folder: Path) -> None:
        self._files: dict[str, BinaryIO] = {name: (folder / split_file(name)).open("wb") for name in ALL}
        self.rows = dict.fromkeys(ALL, 0)
        self.items: dict[str, list[str]] = {name: [] for name in ALL}

    def __enter__(self) -> SplitFiles:
        return self

    def __exit__(self, *exception: object) -> None:
        for file in self._files.values():
            file.close()

    def add(self, split: str, instance_id: str, rows: list[Mapping[str, Any]]) -> None:
        """Write all rows of one item."""
        self.items[split].append(instance_id)
        for row in rows:
            self.rows[split] += 1
            self._files[split].write(_encode(row).encode("utf-8") + b"\n")

    def sync(self) -> None:
        """Bring everything to disk."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())


def write_object(path: Path, body: Mapping[str, Any]) -> None:
    """One JSON object, on disk when this returns."""
    with path.open("w", encoding="utf-8") as handle:
        json.dump(body, handle, ensure_ascii=False, indent=1)
        handle.write("\n")
        handle.flush()
        os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
