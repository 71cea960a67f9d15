"""Imported by every Python that has this folder on PYTHONPATH: workers are lost sooner than after 300 s."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType

_MODULE = "potato_ray.backends.making"
_seconds = os.environ.get("LC_POTATO_RAY_LOST_AFTER", "")


class _Shortened:
    """Finds the module in which the time is named, and names another one once it is loaded."""

    @staticmethod
    def find_spec(
        name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if name != _MODULE:
            return None
        spec = PathFinder.find_spec(name, path, target)
        if spec is None or spec.loader is None:
            return spec
        load = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            load(module)
            module.LOST_AFTER_S = float(_seconds)  # type: ignore[attr-defined]

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


if _seconds:
    sys.meta_path.insert(0, _Shortened)  # type: ignore[arg-type]
