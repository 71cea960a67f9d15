"""The processes of a spare worker, found by what it carries in its environment."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from potato_ray.job.processes import marked


def spare_pids(address: object) -> list[int]:
    """Those of the spare that listens there, or did, its worker above all."""
    return marked([entry for entry in _entries() if entry.startswith(f"POTATO_RAY_SPARE={address}:")])


def _entries() -> Iterator[str]:
    for environ in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            yield from environ.read_bytes().decode("utf-8", "replace").split("\0")
