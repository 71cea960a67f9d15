"""Which packages that trainers of ours need are missing in the interpreter of the workers."""

from __future__ import annotations

import time
from typing import Callable, Sequence

from potato_ray.job.command import run_command

MODULES = (
    "accelerate",
    "numpy",
    "peft",
    "rdkit",
    "scipy",
    "sentence_transformers",
    "setfit",
    "sklearn",
    "skops",
    "torch",
    "transformers",
)
"""What is looked for; an agent knows no trainers."""
LOOK_AGAIN_S = 300.0
"""Somebody may have installed something meanwhile."""
_TIMEOUT_S = 30.0
_MARK = "lacks:"
_LOOK = """
import importlib.util, sys
print("lacks:", *[name for name in sys.argv[1:] if importlib.util.find_spec(name) is None])
"""


class Packages:
    """Looks when it is asked, at most every LOOK_AGAIN_S; imports none of them."""

    def __init__(self, python: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.python = python
        self._clock = clock
        self._looked_at = float("-inf")
        self._missing: Sequence[str] = ()

    def missing(self) -> Sequence[str]:
        """Those of MODULES that are not there; none where the interpreter does not say."""
        now = self._clock()
        if now - self._looked_at >= LOOK_AGAIN_S:
            said = run_command([self.python, "-c", _LOOK, *MODULES], _TIMEOUT_S, with_errors=False)
            lines = [line for line in said.text.splitlines() if line.startswith(_MARK)]
            self._missing = lines[-1][len(_MARK) :].split() if said.code == 0 and lines else ()
            self._looked_at = now
        return self._missing
