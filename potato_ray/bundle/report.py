"""What a build answers; apart from the building, so that whoever only gets it loads no numpy."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class BuildReport:
    """What was built: the manifest, what people should know, and the items of each split in order.

    `moved` are the items that were moved from val or test into train.
    """

    manifest: dict[str, Any]
    warnings: tuple[str, ...]
    splits: dict[str, list[str]]
    moved: tuple[str, ...] = ()
