"""Reading a bundle: its manifest, the rows of a split, the targets of its items."""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from potato_ray.bundle.split_names import ALL

MANIFEST = "manifest.json"
LABELS = "labels.json"
VERSION = 1

_CHUNK = 1 << 20


class Labelled(NamedTuple):
    """The target of each item of a split, and the items with an answer that began as a pre-label."""

    targets: dict[str, Any]
    seeded: frozenset[str]


def read_manifest(folder: Path) -> dict[str, Any]:
    """manifest.json. Raises FileNotFoundError, and ValueError for another version or no object."""
    body = json.loads((folder / MANIFEST).read_text("utf-8"))
    if not isinstance(body, dict) or body.get("v") != VERSION:
        raise ValueError(f"{MANIFEST} is not of version {VERSION}")
    return body


def read_rows(folder: Path, split: str) -> Iterator[dict[str, Any]]:
    """The rows of train, val, test or unlabeled, in order. Raises ValueError for a torn line."""
    # Only "\n" ends a row: a text may hold other characters that count as line ends elsewhere.
    with (folder / split_file(split)).open(encoding="utf-8", newline="\n") as handle:
        for line in handle:
            yield json.loads(line)


def targets_of(folder: Path, split: str, scheme_name: str) -> dict[str, Any]:
    """The target of each item of a split that has one; an item with several rows is there once."""
    return read_labelled(folder, split, scheme_name).targets


def read_labelled(folder: Path, split: str, scheme_name: str) -> Labelled:
    """The same, and which items of the split began as a pre-label, in one pass."""
    targets: dict[str, Any] = {}
    seeded: set[str] = set()
    for row in read_rows(folder, split):
        if scheme_name in row.get("targets", {}):
            targets.setdefault(row["instance_id"], row["targets"][scheme_name])
        if row.get("seeded"):
            seeded.add(row["instance_id"])
    return Labelled(targets, frozenset(seeded))


def items_of(folder: Path) -> dict[str, list[str]]:
    """The items of each split, in order; one with several rows is there once."""
    return {
        split: list(dict.fromkeys(row["instance_id"] for row in read_rows(folder, split))) for split in ALL
    }


def split_file(split: str) -> str:
    """The file name of a split. Raises ValueError for an unknown one."""
    if split not in ALL:
        raise ValueError(f"there is no split {split!r}; there are {', '.join(ALL)}")
    return f"{split}.jsonl"


def digest_of(folder: Path) -> str:
    """sha256 over the split files in the order of split_names.ALL: of each, name, line end, bytes."""
    digest = sha256()
    for split in ALL:
        digest.update(f"{split_file(split)}\n".encode())
        with (folder / split_file(split)).open("rb") as handle:
            while chunk := handle.read(_CHUNK):
                digest.update(chunk)
    return digest.hexdigest()
