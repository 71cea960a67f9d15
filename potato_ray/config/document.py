"""A configuration as it was written: plain values, and where in the file each of them stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potato_ray.config.findings import Code, Finding, Level

KeyPath = tuple[str | int, ...]
"""Where a value stands: keys of mappings and indices of lists, from the top."""


def dotted(path: KeyPath) -> str:
    """The full key that people read: `annotation_schemes[0].name`."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


@dataclass
class Document:
    """The values of a configuration file, the lines of its keys, and what was found in it so far.

    `words` holds scalars as they stand in the file where they became something else than text, so that a
    label `No` can be named although its value is False.
    """

    path: Path
    data: dict[str, Any]
    lines: dict[KeyPath, int] = field(default_factory=dict)
    words: dict[KeyPath, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def at(self, *path: str | int) -> Any:
        """The value at `path`, or None when there is none."""
        value: Any = self.data
        for part in path:
            if isinstance(part, int):
                value = value[part] if isinstance(value, list) and part < len(value) else None
            else:
                value = value.get(part) if isinstance(value, dict) else None
        return value

    def mapping(self, *path: str | int) -> Mapping[str, Any]:
        """The mapping at `path`; empty when there is none, or something else."""
        value = self.at(*path)
        return value if isinstance(value, dict) else {}

    def list(self, *path: str | int) -> list[Any]:
        """The list at `path`; empty when there is none, or something else."""
        value = self.at(*path)
        return value if isinstance(value, list) else []

    def text(self, *path: str | int, default: str = "") -> str:
        """The text at `path`; `default` when there is none, or something else."""
        value = self.at(*path)
        return value if isinstance(value, str) else default

    def line(self, path: KeyPath) -> int | None:
        """The line of the key at `path`, or of the nearest one above it."""
        for end in range(len(path), 0, -1):
            if path[:end] in self.lines:
                return self.lines[path[:end]]
        return None

    def error(self, path: KeyPath, message: str, code: Code, suggestion: str = "") -> None:
        """Note an error at `path`."""
        self._add("error", path, message, code, suggestion)

    def warn(self, path: KeyPath, message: str, code: Code, suggestion: str = "") -> None:
        """Note a warning at `path`."""
        self._add("warning", path, message, code, suggestion)

    def _add(self, level: Level, path: KeyPath, message: str, code: Code, suggestion: str) -> None:
        finding = Finding(level, dotted(path), message, self.line(path), suggestion, code)
        if finding not in self.findings:
            self.findings.append(finding)
