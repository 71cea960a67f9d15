"""skops comes alone, also where torch is installed."""

from __future__ import annotations

import subprocess
import sys

from parts import need_module


def said(program: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=True
    )
    return done.stdout.strip()


def test_saving_a_model_does_not_bring_torch() -> None:
    program = (
        "import sys; from potato_ray.trainers.skops_alone import io;"
        "from sklearn.linear_model import Ridge;"
        "data = io.dumps(Ridge(alpha=3.0).fit([[0], [1]], [0, 1]));"
        "print(io.loads(data).alpha, sorted({'torch', 'cupy', 'dask'} & set(sys.modules)))"
    )
    assert said(program) == "3.0 []"


def test_torch_can_be_had_afterwards() -> None:
    need_module("torch")
    program = (
        "import sys; from potato_ray.trainers.skops_alone import io; import torch;"
        "print('torch' in sys.modules)"
    )
    assert said(program) == "True"
