"""Imported by every Python that has this folder on PYTHONPATH: what a base install lacks is not there.

The tests' environment has it. LC_POTATO_RAY_LACKING lists the packages. Each import that is tried of one is a
line of the file that LC_POTATO_RAY_TRIED names: the module, and who tried. To look for one is no try.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType

_lacking = os.environ.get("LC_POTATO_RAY_LACKING", "").split()
_tried = os.environ.get("LC_POTATO_RAY_TRIED", "")


class _Lacking:
    """Finds none of them."""

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None, target: ModuleType | None = None) -> None:
        if name.partition(".")[0] not in _lacking:
            return
        if _tried and sys._getframe(2).f_code.co_name == "_find_and_load_unlocked":
            with open(_tried, "a", encoding="utf-8") as file:
                file.write(f"{name} {' '.join(sys.orig_argv)[:200]!r}\n")
        raise ModuleNotFoundError(f"a base install has no {name}", name=name)


sys.meta_path.insert(0, _Lacking)  # type: ignore[arg-type]
