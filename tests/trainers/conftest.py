"""A run of sklearn-text without worker and bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from trainer_samples import Fitted, fit_in

from potato_ray.trainers.base import SchemeSpec
from potato_ray.trainers.sklearn_text import SklearnText


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Fitted]:
    """Fit sklearn-text: train(kind or scheme, rows, **params)."""

    def run(
        scheme: str | SchemeSpec, rows: Sequence[Mapping[str, Any]], *, seed: int = 0, **params: Any
    ) -> Fitted:
        return fit_in(tmp_path, SklearnText, scheme, {"train": rows}, params, seed)

    return run
