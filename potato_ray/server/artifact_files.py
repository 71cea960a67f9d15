"""The files that a run offers: those in its artifacts folder, and nothing that a link leads to outside.

A name that is no UTF-8 fits into no address, so its file is left out, and so are files that are still on
their way here. Spec, bundle and logs of the job folder are not among them; events and log have routes of
their own.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from potato_ray.backends.artifact_copy import PARTS
from potato_ray.errors import NotFound

MAX_FILES = 5000
"""The most files listed; a model has dozens."""

_UNFIT = (OSError, ValueError, RuntimeError)
"""RuntimeError: what Python 3.11 says of links that lead to each other."""
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


@dataclass(frozen=True)
class ArtifactFile:
    """One file: `path` within the artifacts folder with slashes, `modified` in epoch seconds UTC."""

    path: str
    bytes: int
    modified: float


def artifact_files(run_folder: Path) -> list[ArtifactFile]:
    """The files of a run's artifacts folder, by path; empty where there is no such folder."""
    root = _root(run_folder)
    found = []
    for path in _files_below(root):
        name = path.relative_to(root).as_posix()
        try:
            details = _found(root, name)[1]
        except _UNFIT:
            continue
        found.append(ArtifactFile(name, details.st_size, details.st_mtime))
        if len(found) == MAX_FILES:
            break
    return sorted(found, key=lambda each: each.path)


def find_artifact(run_folder: Path, name: str) -> Path:
    """The file that goes by `name`; raises NotFound, also for what lies elsewhere."""
    try:
        return _found(_root(run_folder), name)[0]
    except _UNFIT:
        raise NotFound(
            f"This run has no file {name!r}."[:300],
            code="unknown_artifact",
            next_step="GET …/artifacts lists its files.",
        ) from None


def _root(run_folder: Path) -> Path:
    """The artifacts folder; where it is a link, what it leads to is not of this run."""
    return run_folder.resolve() / "artifacts"


def _files_below(root: Path) -> Iterator[Path]:
    for folder, folders, names in os.walk(root, followlinks=False):
        folders[:] = sorted(each for each in folders if each != PARTS or Path(folder) != root)
        yield from (Path(folder, name) for name in sorted(names))


def _found(root: Path, name: str) -> tuple[Path, os.stat_result]:
    """Raises one of _UNFIT for a name that leads out of `root`, or to no file."""
    name.encode("utf-8")
    parts = name.split("/")
    if (
        any(part in ("", ".", "..") for part in parts)
        or parts[0] == PARTS
        or _CONTROL.search(name)
        or "\\" in name
    ):
        raise ValueError(name)
    real = root.joinpath(*parts).resolve(strict=True)
    real.relative_to(root)
    details = real.stat()
    if not stat.S_ISREG(details.st_mode):
        raise ValueError(name)
    return real, details
