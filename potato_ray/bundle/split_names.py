"""The names of the splits and their default shares, apart from the arithmetic, which needs numpy."""

from __future__ import annotations

from collections.abc import Mapping

HELD_OUT = ("val", "test")
SPLITS = ("train", *HELD_OUT)
UNLABELED = "unlabeled"
ALL = (*SPLITS, UNLABELED)

DEFAULT_FRACTIONS: Mapping[str, float] = {"train": 0.7, "val": 0.15, "test": 0.15}
