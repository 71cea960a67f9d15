from __future__ import annotations

from pathlib import Path

import pytest

from potato_ray.backends.base import Refusal
from potato_ray.backends.choice import DEFAULT_MIN_FREE_MB, NO_KERNELS, choose
from potato_ray.backends.gpus import LIST_TIMEOUT_S, Card

DOCS = (Path(__file__).parents[2] / "docs" / "backends.md").read_text("utf-8")
FULL = Card(0, "GPU-a", "X", 8000, 10)


@pytest.mark.parametrize("backend_type", ["local", "ssh", "slurm", "agent", "ray"])
def test_every_backend_type_has_its_heading(backend_type: str) -> None:
    assert f"\n## {backend_type}\n" in DOCS


def test_the_refusals_of_the_gpu_choice_are_explained_to_the_letter() -> None:
    for refusal in (choose([FULL], "auto"), choose([FULL], "auto", kernels=lambda card: False)):
        assert isinstance(refusal, Refusal)
        assert f"| `{refusal.message.rstrip('.')}` |" in DOCS
    assert NO_KERNELS in DOCS


def test_the_numbers_in_the_docs_are_those_of_the_code() -> None:
    assert f"{DEFAULT_MIN_FREE_MB} MB of free memory" in DOCS
    assert f"after {LIST_TIMEOUT_S:.0f} seconds a call" in DOCS
