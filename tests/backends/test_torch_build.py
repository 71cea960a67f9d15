from __future__ import annotations

import sys
from pathlib import Path

import pytest

from potato_ray.backends.gpus import Card
from potato_ray.backends.torch_build import TorchBuild, ask_torch


@pytest.mark.parametrize(
    ("capability", "architectures", "fits"),
    [
        ("8.0", ("sm_80",), True),
        ("8.6", ("sm_80",), True),
        ("8.0", ("sm_86",), False),
        ("9.0", ("sm_80", "sm_86"), False),
        ("9.0", ("sm_80", "compute_80"), True),
        ("7.5", ("compute_80",), False),
        ("12.1", ("sm_120",), True),
        ("10.0", ("sm_120",), False),
        ("9.0", ("sm_90a",), True),
        ("9.1", ("sm_90a",), False),
        ("10.3", ("sm_100f",), True),
        ("", ("sm_80",), True),
        ("3.5", (), True),
    ],
)
def test_kernels_fit_a_card_as_cuda_defines_it(
    capability: str, architectures: tuple[str, ...], fits: bool
) -> None:
    card = Card(0, "GPU-a", "X", compute_capability=capability)
    assert TorchBuild("2.9", "12.8", architectures).has_kernels_for(card) is fits


def test_an_interpreter_without_torch_is_unknown(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2\nexit 1\n")
    python.chmod(0o755)
    assert ask_torch(str(python)) is None
    assert ask_torch(str(tmp_path / "nowhere")) is None


def test_the_interpreter_is_asked_for_its_torch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch.py").write_text(
        "__version__ = '2.9.0+cu128'\n"
        "class version: cuda = '12.8'\n"
        "class cuda:\n    @staticmethod\n    def get_arch_list(): return ['sm_80', 'compute_90']\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert ask_torch(sys.executable) == TorchBuild("2.9.0+cu128", "12.8", ("sm_80", "compute_90"))
