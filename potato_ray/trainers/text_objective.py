"""What a transformer's outputs mean for each kind of scheme: targets, loss, and answers.

nominal      an output for each label; cross entropy, softmax
ordinal      an output for each step of the scale, "above this step" (Frank and Hall 2001, as in heads.py);
             binary cross entropy, sigmoid
multilabel   an output for each label; binary cross entropy, sigmoid
continuous   one output, in standard deviations from the mean of the train targets; squared error
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping

from potato_ray.trainers import answers, heads, kinds

NONE, BALANCED = "none", "balanced"
"""class_weights: as they are, or each label as if all were as frequent."""


@dataclass(frozen=True)
class Objective:
    """`mean` and `scale` are those of the train targets, `bounds` the least and greatest value (continuous).

    `labels` are in the scheme's order; for two labels or more, but for continuous.
    """

    kind: str
    labels: tuple[str, ...]
    mean: float = 0.0
    scale: float = 1.0
    bounds: tuple[float, float] = (0.0, 1.0)

    @property
    def n_outputs(self) -> int:
        if self.kind == kinds.CONTINUOUS:
            return 1
        return len(self.labels) - 1 if self.kind == kinds.ORDINAL else len(self.labels)

    @property
    def problem_type(self) -> str:
        """As transformers name it in a model's config."""
        if self.kind == kinds.NOMINAL:
            return "single_label_classification"
        return "regression" if self.kind == kinds.CONTINUOUS else "multi_label_classification"

    def targets(self, coded: Any) -> Any:
        """n targets of train_rows (label numbers, n × labels booleans, floats) as the loss takes them."""
        import numpy as np

        if self.kind == kinds.NOMINAL:
            return np.asarray(coded, dtype=np.int64)
        if self.kind == kinds.CONTINUOUS:
            return ((np.asarray(coded, dtype=float) - self.mean) / self.scale).astype(np.float32)
        return heads.truth_columns(self.kind, coded, len(self.labels)).astype(np.float32)

    def coded(self, targets: Any) -> Any:
        """The targets as train_rows has them, by what `targets` made of them."""
        import numpy as np

        if self.kind == kinds.NOMINAL:
            return np.asarray(targets, dtype=np.int64)
        if self.kind == kinds.CONTINUOUS:
            return np.asarray(targets, dtype=float) * self.scale + self.mean
        columns = np.asarray(targets) > 0.5
        return columns if self.kind == kinds.MULTILABEL else columns.sum(axis=1)

    def weights(self, coded: Any, how: str) -> Any:
        """A weight for each output, or for both answers of it (2 × outputs); None for none."""
        import numpy as np

        if how == NONE or self.kind == kinds.CONTINUOUS:
            return None
        if self.kind == kinds.NOMINAL:
            counts = np.bincount(coded, minlength=len(self.labels))
            return (len(coded) / (len(self.labels) * np.maximum(counts, 1))).astype(np.float32)
        share = np.clip(heads.truth_columns(self.kind, coded, len(self.labels)).mean(axis=0), 0.01, 0.99)
        return np.stack([0.5 / (1 - share), 0.5 / share]).astype(np.float32)

    def loss(self, outputs: Any, targets: Any, weights: Any) -> Any:
        """The mean loss of a batch, a torch scalar."""
        from torch.nn import functional

        if self.kind == kinds.NOMINAL:
            # Averaged by hand: torch divides by the weights of the batch, which undoes them in small ones.
            return functional.cross_entropy(outputs.float(), targets, weight=weights, reduction="none").mean()
        if self.kind == kinds.CONTINUOUS:
            return functional.mse_loss(outputs.float().squeeze(-1), targets)
        each = None if weights is None else targets * weights[1] + (1 - targets) * weights[0]
        return functional.binary_cross_entropy_with_logits(outputs.float(), targets, weight=each)

    def probabilities(self, outputs: Any, temperature: float = 1.0) -> Any:
        """Of the labels, n × labels, by n × outputs; not for continuous.

        A temperature divides the outputs; of grades, the logarithms of their probabilities. So no label
        overtakes another one.
        """
        import numpy as np

        outputs = np.asarray(outputs, dtype=float)
        if self.kind == kinds.NOMINAL:
            return _softmax(outputs / temperature)
        is_ordinal = self.kind == kinds.ORDINAL
        # Not by tanh, which says 0 of -40 already.
        columns = np.exp(-np.logaddexp(0.0, -(outputs if is_ordinal else outputs / temperature)))
        found = heads.label_probabilities(self.kind, columns, len(self.labels))
        if not is_ordinal or temperature == 1.0:
            return found
        # Dividing the steps' own outputs would move middle grades to the ends.
        return _softmax(np.log(np.clip(found, np.finfo(float).tiny, None)) / temperature)

    def log_losses(self, outputs: Any, coded: Any, temperature: float = 1.0) -> Any:
        """The log loss of each of n items, by the labels' probabilities."""
        import numpy as np

        clipped = np.clip(self.probabilities(outputs, temperature), heads.TINY, 1 - heads.TINY)
        if self.kind == kinds.MULTILABEL:
            truth = np.asarray(coded, dtype=bool)
            return -np.where(truth, np.log(clipped), np.log1p(-clipped)).mean(axis=1)
        return -np.log(clipped[np.arange(len(clipped)), coded])

    def values(self, outputs: Any) -> Any:
        """n numbers inside the bounds, for continuous."""
        import numpy as np

        return np.clip(np.asarray(outputs, dtype=float)[:, 0] * self.scale + self.mean, *self.bounds)

    def answers(
        self, outputs: Any, temperature: float = 1.0
    ) -> Iterator[tuple[dict[str, Any], float | None]]:
        """(payload, confidence) of each item, as answers.py has them."""
        if self.kind == kinds.CONTINUOUS:
            for value in self.values(outputs).tolist():
                yield {"value": value}, None
        elif self.kind == kinds.MULTILABEL:
            yield from answers.sets(self.probabilities(outputs, temperature), self.labels)
        else:
            yield from answers.single(self.probabilities(outputs, temperature), self.labels)

    def names(self) -> list[str]:
        """What each output stands for, as a model's id2label has it."""
        if self.kind == kinds.CONTINUOUS:
            return ["value"]
        if self.kind == kinds.ORDINAL:
            return [f"above {label}" for label in self.labels[:-1]]
        return list(self.labels)

    def as_json(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "labels": list(self.labels),
            "mean": self.mean,
            "scale": self.scale,
            "bounds": list(self.bounds),
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Objective:
        """Raises KeyError, TypeError, ValueError."""
        low, high = body["bounds"]
        return cls(
            str(body["kind"]),
            tuple(map(str, body["labels"])),
            float(body["mean"]),
            float(body["scale"]),
            (float(low), float(high)),
        )


def _softmax(scores: Any) -> Any:
    import numpy as np

    powers = np.exp(scores - scores.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)
