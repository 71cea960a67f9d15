"""Imported by every Python that has this folder on PYTHONPATH: its wall clock is shifted by a file."""

from __future__ import annotations

import os
import time

_true_time = time.time
_path = os.environ.get("LC_POTATO_RAY_CLOCK", "")


def _shifted_time() -> float:
    with open(_path, encoding="ascii") as handle:
        return _true_time() + float(handle.read())


if _path:
    time.time = _shifted_time
