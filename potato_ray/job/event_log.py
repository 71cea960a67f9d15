"""Writing events.jsonl: whole lines only, valid JSON whatever a trainer reports."""

from __future__ import annotations

import json
import math
import os
import threading
import time
from pathlib import Path
from typing import Any, Mapping

from potato_ray.job.events import NAMES, VERSION

TEXT_LIMIT = 8000
DEPTH_LIMIT = 8


class EventLog:
    """Appends events, one write a line, so that lines of several writers never mix."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
        self._lock = threading.RLock()
        self._torn = True
        self._end_torn_line()

    def write(self, event: str, **fields: Any) -> None:
        """Write one event now. Raises ValueError for a name that no reader knows, OSError on a full disk."""
        if event not in NAMES:
            raise ValueError(f"there is no event named {event!r}")
        body = {"v": VERSION, "event": event, "t": time.time(), **clean(fields)}
        line = json.dumps(body, ensure_ascii=True, allow_nan=False, separators=(",", ":")) + "\n"
        left = line.encode("ascii")
        with self._lock:
            self._end_torn_line()
            self._torn = True
            while left:
                left = left[os.write(self._descriptor, left) :]
            self._torn = False

    def _end_torn_line(self) -> None:
        """End the line that an earlier worker, or a full disk, has cut off."""
        if not self._torn:
            return
        size = os.fstat(self._descriptor).st_size
        if size and os.pread(self._descriptor, 1, size - 1) != b"\n":
            os.write(self._descriptor, b"\n")
        self._torn = False


def clean(value: Any, depth: int = 0) -> Any:
    """`value` as plain JSON: no NaN or infinity (null), no lone surrogates (?), no foreign types.

    Numbers of numpy and torch become Python's; long texts are cut.
    """
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, str):
        return _text(value)
    if depth < DEPTH_LIMIT:
        if isinstance(value, (dict, Mapping)):  # a dict is told much faster than a Mapping
            return {_text(str(key)): clean(each, depth + 1) for key, each in value.items()}
        if isinstance(value, (list, tuple, set, frozenset)):
            return [clean(each, depth + 1) for each in value]
        if hasattr(value, "item") and getattr(value, "size", 1) in (1, 0):
            return clean(value.item(), depth + 1)
    return _text(str(value))


def _text(text: str) -> str:
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode("utf-8")
    return text if len(text) <= TEXT_LIMIT else text[:TEXT_LIMIT] + "…"
