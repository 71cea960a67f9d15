"""The bundle as a worker reads it: manifest.json and the split files, one row at a time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Iterator, Mapping

from potato_ray.trainers.base import Row

TRAIN = "train"
PREDICTED = ("val", "test", "unlabeled")
"""The splits that are predicted, in this order; the train split never is."""


class BundleUnreadable(Exception):
    """The bundle is missing, torn, or of another shape than this version knows."""


class BundleFiles:
    """One bundle folder. Raises BundleUnreadable when manifest or split files can't be used."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.manifest = _read_manifest(folder / "manifest.json")
        self._splits: Mapping[str, Any] = self.manifest["splits"]

    @property
    def digest(self) -> str:
        return str(self.manifest.get("digest", ""))

    @property
    def media(self) -> Path:
        return self.folder / str(self.manifest.get("media_dir") or "media")

    @property
    def stats(self) -> Mapping[str, Any]:
        stats = self.manifest.get("stats")
        return stats if isinstance(stats, dict) else {}

    def n_rows(self) -> dict[str, int]:
        """Rows by split; one item may have several."""
        return {name: int(split.get("n", 0)) for name, split in self._splits.items()}

    def n_items(self) -> dict[str, int]:
        """Items by split."""
        return {name: int(split.get("n_items", split.get("n", 0))) for name, split in self._splits.items()}

    def rows(self, split: str) -> Iterator[Row]:
        """The rows of a split, read anew at each call; none when the bundle has no such split."""
        entry = self._splits.get(split)
        if entry is None:
            return
        path = self.folder / str(entry.get("path", split + ".jsonl"))
        try:
            with path.open(encoding="utf-8") as handle:
                for number, line in enumerate(handle, start=1):
                    yield _row(line, f"{path.name}, line {number}")
        except (OSError, UnicodeDecodeError) as failure:
            raise BundleUnreadable(f"{path.name}: {failure}") from failure


def _row(line: str, place: str) -> Row:
    try:
        row = json.loads(line)
    except ValueError as failure:
        raise BundleUnreadable(f"{place}: {failure}") from failure
    if not isinstance(row, dict) or not isinstance(row.get("instance_id"), str):
        raise BundleUnreadable(f"{place}: it holds no row with an instance_id")
    return row


def _read_manifest(path: Path) -> dict[str, Any]:
    try:
        body = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as failure:
        raise BundleUnreadable(f"{path.name}: {failure}") from failure
    splits = body.get("splits") if isinstance(body, dict) else None
    if not isinstance(splits, dict) or not all(isinstance(entry, dict) for entry in splits.values()):
        raise BundleUnreadable(f"{path.name} lists no splits")
    return dict(body)
