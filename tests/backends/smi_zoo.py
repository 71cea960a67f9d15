"""The machines of the zoo: answers of nvidia-smi, as files under smi/."""

from __future__ import annotations

from pathlib import Path

import fake_nvidia_smi

from potato_ray.backends.smi import RunSmi
from potato_ray.job.command import Answer

ZOO = Path(__file__).parent / "smi"


def recorded(name: str) -> RunSmi:
    """A runner that answers as the machine `name`."""
    return lambda arguments, timeout_s: Answer(*fake_nvidia_smi.answer(arguments, ZOO / name))
