"""A fitted SetFit model: its body, the regressions on the embeddings, and what they say of new texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from potato_ray.trainers import heads, model_files, sentence_body
from potato_ray.trainers.answers import Answering
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.setfit_training import quiet

FORMAT = 1
"""Of what is saved."""
BODY = "model"
"""The body's folder below the artifacts."""


class FewShotModel(Answering):
    """`body` is a setfit.SetFitModel without a head; `estimators` are the head, once it is fitted."""

    def __init__(self, kind: str, labels: Sequence[str], body: Any, batch_size: int) -> None:
        self.kind = kind
        self.labels = tuple(labels)
        self.estimators: list[Any] = []
        self.curves = ()
        self.bounds = (0.0, 1.0)
        self.body = body
        self.batch_size = batch_size

    def embed(self, texts: Sequence[str]) -> Any:
        """n × width, float32."""
        with quiet():
            return sentence_body.embeddings(self.body, texts, self.batch_size * 2)

    def fit_head(self, make: Callable[[], Any], features: Any, targets: Any) -> None:
        """Fit the head on embeddings; `make` gives an unfitted classifier, `targets` are as in TrainRows."""
        self.estimators = heads.fit_heads(make, self.kind, features, targets, len(self.labels))

    def save(self, artifacts: Path) -> None:
        """Write body and head; nothing of it has to be unpickled."""
        with quiet():
            sentence_body.save(self.body, artifacts / BODY)
        state = {
            "format": FORMAT,
            "kind": self.kind,
            "labels": list(self.labels),
            "estimators": self.estimators,
            "normalize": bool(self.body.normalize_embeddings),
            "batch_size": self.batch_size,
        }
        model_files.save_model(artifacts, state)

    @classmethod
    def load(cls, artifacts: Path, device: str) -> FewShotModel:
        """What `save` wrote. Raises TrainerError, and KeyError, TypeError, ValueError for a foreign file."""
        state: Mapping[str, Any] = model_files.load_model(artifacts)
        if state["format"] != FORMAT:
            raise TrainerError(
                "validation_failed",
                f"The model is of format {state['format']}, and this version of potato_ray reads {FORMAT}.",
                "Train again, or use the version that saved it.",
            )
        with quiet():
            body = sentence_body.load(artifacts / BODY, device, bool(state["normalize"]))
        model = cls(str(state["kind"]), list(map(str, state["labels"])), body, int(state["batch_size"]))
        model.estimators = list(state["estimators"])
        return model
