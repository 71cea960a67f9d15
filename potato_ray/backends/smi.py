"""The nvidia-smi of this machine."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence

from potato_ray.job.command import Answer, run_command

NOT_FOUND = "nvidia-smi was not found"

_ALSO_AT = "/usr/lib/wsl/lib"
"""Where Windows puts nvidia-smi into a Linux guest, outside of PATH."""

RunSmi = Callable[[Sequence[str], float], Answer]
"""Run nvidia-smi with these arguments for at most that many seconds; never raises."""


def run_nvidia_smi(arguments: Sequence[str], timeout_s: float) -> Answer:
    """Run this machine's nvidia-smi; where there is none, the answer's text is NOT_FOUND."""
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=_ALSO_AT)
    if program is None:
        return Answer(None, NOT_FOUND)
    return run_command([program, *arguments], timeout_s)
