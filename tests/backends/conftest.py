"""Fixtures of the backends' tests: the zoo of nvidia-smi answers, and a fake nvidia-smi on PATH."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent / "testbeds"))
sys.path.insert(0, str(Path(__file__).parent))

import fake_nvidia_smi
from smi_zoo import recorded

from potato_ray.backends.gpus import Listing, list_cards


@pytest.fixture
def listing_of() -> Callable[[str], Listing]:
    """The listing of a machine of the zoo, by its name."""
    return lambda name: list_cards(recorded(name))


@pytest.fixture
def smi_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the nvidia-smi on PATH answers from."""
    fake_nvidia_smi.install(tmp_path / "bin")
    folder = tmp_path / "smi"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SMI_DIR", str(folder))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    return folder
