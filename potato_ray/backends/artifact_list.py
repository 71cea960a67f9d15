"""What a host announces of the model files that it sends. It is not trusted: all of it is checked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any, Final

from potato_ray.agent.member_names import shown, usable_path

MB: Final = 1 << 20
MOST_FILES: Final = 100_000


class HostError(Exception):
    """The host says that it cannot send them; `said` are the parts of its error."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__()
        names = ("code", "message", "evidence", "next_step")
        self.said = {name: str(error.get(name) or "")[:500] for name in names}


@dataclass(frozen=True)
class Announced:
    """One file: `n_bytes` in all, of which those from `offset` on come."""

    path: str
    n_bytes: int
    offset: int


@dataclass(frozen=True)
class ArtifactList:
    """`left`: (path, bytes) of files that are too large, `skipped`: (path, why); both fit for messages."""

    files: tuple[Announced, ...]
    left: tuple[tuple[str, int], ...]
    skipped: tuple[tuple[str, str], ...]

    @property
    def n_bytes(self) -> int:
        """Of all files that come."""
        return sum(each.n_bytes for each in self.files)

    @property
    def n_missing_bytes(self) -> int:
        """Of what is not here yet."""
        return sum(each.n_bytes - each.offset for each in self.files)


def read_list(line: bytes, max_file_mb: float, reserved: frozenset[str]) -> ArtifactList:
    """The list in the first line of a stream; `reserved`: first parts of paths that are not for a host.

    Raises HostError, and ValueError with the rest of the sentence that begins with "it".
    """
    try:
        body = json.loads(line)
    except (ValueError, RecursionError):
        body = None
    if isinstance(body, dict) and isinstance(body.get("error"), dict):
        raise HostError(body["error"])
    header = body.get("artifacts") if isinstance(body, dict) else None
    if not isinstance(header, dict) or not isinstance(header.get("files"), list):
        raise ValueError("it announced no files")
    if len(header["files"]) > MOST_FILES:
        raise ValueError(f"it announced more than {MOST_FILES} files")
    files = tuple(_file(entry, max_file_mb, reserved) for entry in header["files"])
    _check_apart(files)
    return ArtifactList(files, tuple(_left(header.get("left"))), tuple(_skipped(header.get("skipped"))))


def _file(entry: Any, max_file_mb: float, reserved: frozenset[str]) -> Announced:
    entry = entry if isinstance(entry, dict) else {}
    path, n_bytes, offset = entry.get("path"), entry.get("bytes"), entry.get("offset")
    if not isinstance(path, str) or not _is_size(n_bytes) or not _is_size(offset) or offset > n_bytes:
        raise ValueError("it announced a file without a usable path, size or offset")
    _check_path(path)
    if path.split("/")[0] in reserved:
        raise ValueError(f"it announced {shown(path)}, which is not for it to send")
    if n_bytes > max_file_mb * MB:
        raise ValueError(f"it announced {shown(path)}, which is larger than {max_file_mb:g} MB")
    return Announced(path, n_bytes, offset)


def _check_path(path: str) -> None:
    try:
        usable = usable_path(path)
    except ValueError as failure:
        raise ValueError(f"its name {shown(path)} {failure}") from None
    if not usable or usable.decode("utf-8") != path:
        raise ValueError(f"its name {shown(path)} is no plain path")


def _check_apart(files: tuple[Announced, ...]) -> None:
    """Every path once, and none that would be a folder and a file."""
    paths = {each.path for each in files}
    folders = {str(folder) for path in paths for folder in PurePosixPath(path).parents}
    if len(paths) < len(files) or paths & folders:
        raise ValueError("it announced files that are in each other's way")


def _left(entries: Any) -> Iterator[tuple[str, int]]:
    for entry in _objects(entries):
        if isinstance(entry.get("path"), str) and _is_size(entry.get("bytes")):
            yield _for_message(entry["path"]), entry["bytes"]


def _skipped(entries: Any) -> Iterator[tuple[str, str]]:
    for entry in _objects(entries):
        yield _for_message(entry.get("path")), _for_message(entry.get("why"))


def _objects(value: Any) -> list[dict[str, Any]]:
    found = value if isinstance(value, list) else []
    return [each for each in found[:MOST_FILES] if isinstance(each, dict)]


def _for_message(value: Any) -> str:
    return shown(str(value))[1:-1]


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 60
