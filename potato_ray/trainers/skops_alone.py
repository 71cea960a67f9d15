"""skops.io, without what its import brings along where it is installed.

skops looks through all of scikit-learn once, also at what is there for torch, CuPy and Dask. Where one of
these is installed, that costs seconds and hundreds of MiB in every worker; the models hold nothing of it.
"""

from __future__ import annotations

import sys
from contextlib import suppress
from typing import Any

NOT_WANTED = ("torch", "cupy", "dask")


class _Without:
    """Finds none of them, for as long as it stands in sys.meta_path; what was loaded before stays."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> None:
        if name in NOT_WANTED:
            raise ModuleNotFoundError(f"{name} is not wanted here", name=name)


def _import_alone() -> Any:
    sys.meta_path.insert(0, _Without)
    try:
        import skops.io
    finally:
        sys.meta_path.remove(_Without)
    return skops.io


def __getattr__(name: str) -> Any:
    """For an interpreter without skops: whoever asks for `io` is told what is missing, and nobody else."""
    if name == "io":
        return _import_alone()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


with suppress(ImportError):
    io = _import_alone()
