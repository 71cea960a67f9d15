"""A fitted model of molecules: features, estimators, the train molecules, and what they say of others."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

from potato_ray.trainers import calibration
from potato_ray.trainers.answers import Answering
from potato_ray.trainers.base import TrainerError
from potato_ray.trainers.molecule_features import MoleculeFeatures, nearest_similarities

FORMAT = 1
NEAREST = "nearest_similarity"
"""The member of a payload that says how like the molecule is to the nearest train molecule, 0..1."""


@dataclass(frozen=True)
class PropertyModel(Answering):
    """Everything that predicting needs; the rest is as Answering tells.

    `columns` are the numbers of the features that differ among the train molecules: the estimators know no
    others. `bits` are the packed bits of the train molecules, m × bytes.
    """

    kind: str
    labels: tuple[str, ...]
    smiles_field: str | None
    features: MoleculeFeatures
    columns: Any
    bits: Any
    estimators: list[Any]
    curves: tuple[calibration.Curve, ...]
    bounds: tuple[float, float]

    def answers(self, molecules: Sequence[Any]) -> Iterator[tuple[dict[str, Any], float | None]]:
        """(payload, confidence) of each of n molecules, in order."""
        import numpy as np

        if not molecules:
            return
        matrix = np.empty((len(molecules), self.features.n_columns), dtype=np.float32)
        bits = self.features.into(matrix, molecules)
        nearest = nearest_similarities(bits, self.bits).tolist()
        for (payload, confidence), similarity in zip(self.answers_of(matrix[:, self.columns]), nearest):
            yield {**payload, NEAREST: round(similarity, 4)}, confidence

    def state(self) -> dict[str, Any]:
        """What has to be saved."""
        return {
            "format": FORMAT,
            "kind": self.kind,
            "labels": list(self.labels),
            "smiles_field": self.smiles_field,
            "features": self.features.state(),
            "columns": self.columns,
            "bits": self.bits,
            "estimators": self.estimators,
            "curves": calibration.curves_state(self.curves),
            "bounds": list(self.bounds),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> PropertyModel:
        """The model that `state` described.

        Raises TrainerError when another version saved it or this RDKit lacks a descriptor, ValueError for one
        that contradicts itself.
        """
        if state["format"] != FORMAT:
            raise TrainerError(
                "validation_failed",
                f"The model is of format {state['format']}, and this version of potato_ray reads {FORMAT}.",
                "Train again, or use the version that saved it.",
            )
        features = MoleculeFeatures.from_state(state["features"])
        columns, bits = state["columns"], state["bits"]
        _check_shapes(features, columns, bits)
        return cls(
            kind=state["kind"],
            labels=tuple(state["labels"]),
            smiles_field=state["smiles_field"],
            features=features,
            columns=columns,
            bits=bits,
            estimators=list(state["estimators"]),
            curves=calibration.curves_from_state(state["curves"]),
            bounds=(state["bounds"][0], state["bounds"][1]),
        )


def _check_shapes(features: MoleculeFeatures, columns: Any, bits: Any) -> None:
    fitting = bits.ndim == 2 and bits.dtype == "uint8" and bits.shape[1] == (features.n_bits + 7) // 8
    inside = columns.ndim == 1 and columns.dtype.kind == "i" and columns.size > 0
    if not (fitting and inside and columns.min() >= 0 and columns.max() < features.n_columns):
        raise ValueError("the features and the train molecules do not fit together")
