"""A run of sklearn-text without worker and bundle."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from trainer_samples import SCHEMES, Fitted, Recorder

from potato_ray.trainers.base import FitContext, SchemeSpec
from potato_ray.trainers.params import complete
from potato_ray.trainers.sklearn_text import SklearnText


@pytest.fixture
def train(tmp_path: Path) -> Callable[..., Fitted]:
    """Fit sklearn-text: train(kind or scheme, rows, **params)."""

    def run(
        scheme: str | SchemeSpec, rows: Sequence[Mapping[str, Any]], *, seed: int = 0, **params: Any
    ) -> Fitted:
        recorder, trainer = Recorder(), SklearnText()
        context = FitContext(
            scheme=SCHEMES[scheme] if isinstance(scheme, str) else scheme,
            params=complete(SklearnText, params),
            rows=lambda split: (dict(row) for row in rows if split == "train"),
            n_rows={"train": len(rows)},
            artifacts=tmp_path / "artifacts",
            media=tmp_path / "media",
            seed=seed,
            device="cpu",
            reporter=recorder,
            bundle_digest="d1ge57",
        )
        return Fitted(trainer, trainer.fit(context), context.artifacts, recorder)

    return run
