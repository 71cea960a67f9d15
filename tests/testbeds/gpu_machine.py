"""A machine with GPUs for whole runs: a fake nvidia-smi, and a fake torch that can use what it shows."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import fake_nvidia_smi
import pytest

FAKE_TORCH = Path(__file__).parent / "fake_torch"


def give_gpus(patch: pytest.MonkeyPatch, folder: Path, free_mb: Sequence[int]) -> list[str]:
    """Let this process, and all that it starts, see one GPU for each number; their UUIDs.

    `folder` is where the stand-ins are kept; `folder`/smi may be rewritten (fake_nvidia_smi.write_cards).
    """
    fake_nvidia_smi.install(folder / "bin")
    patch.setenv("PATH", f"{folder / 'bin'}{os.pathsep}{os.environ['PATH']}")
    patch.setenv("FAKE_SMI_DIR", str(folder / "smi"))
    patch.setenv("PYTHONPATH", os.pathsep.join([str(FAKE_TORCH), os.environ.get("PYTHONPATH", "")]))
    patch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return fake_nvidia_smi.write_cards(folder / "smi", free_mb)
