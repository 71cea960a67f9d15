"""rdkit-property: properties of molecules, from their SMILES, with trees on fingerprints and descriptors."""

from __future__ import annotations

import warnings
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, Iterable, Iterator, Mapping

from potato_ray.trainers import (
    calibration,
    kinds,
    library_warnings,
    model_files,
    molecule_features,
    molecules,
)
from potato_ray.trainers.base import (
    MIN_INSTANCES,
    FitContext,
    Grouping,
    Licence,
    Param,
    Prediction,
    Reporter,
    Requirement,
    Row,
    Trainer,
    TrainerError,
)
from potato_ray.trainers.installing import into_this_python
from potato_ray.trainers.molecule_features import MoleculeFeatures
from potato_ray.trainers.molecule_rows import TrainMolecules, read_train_molecules, smiles_of, windows
from potato_ray.trainers.molecule_trees import (
    BALANCED,
    BOOSTING,
    FOREST,
    NONE,
    ROUNDS,
    TREES,
    Trees,
    fit_trees,
)
from potato_ray.trainers.property_model import PropertyModel
from potato_ray.trainers.train_rows import TrainRows
from potato_ray.trainers.value_range import value_range

ITEM, SCAFFOLD = "item", "scaffold"

_RDKIT = Requirement("rdkit", "rdkit")


class InvalidMolecules(UserWarning):
    """Some of the items that a loaded model was asked about are no molecules."""


class RdkitProperty(Trainer):
    """Gradient boosting or a random forest on Morgan fingerprints and RDKit's descriptors."""

    name = "rdkit-property"
    description = "Properties of molecules from their SMILES, with scikit-learn's trees; needs no GPU."
    kinds = (kinds.NOMINAL, kinds.ORDINAL, kinds.MULTILABEL, kinds.CONTINUOUS)
    annotation_types = (
        "radio",
        "select",
        "triage",
        "likert",
        "confidence",
        "multiselect",
        "hierarchical_multiselect",
        "slider",
        "number",
        "vas",
    )
    params = (
        Param(
            "smiles_field",
            "str",
            None,
            "The field of the items that holds the SMILES. Left out: their text.",
            optional=True,
        ),
        Param("model", "choice", BOOSTING, "What learns.", choices=(BOOSTING, FOREST)),
        Param(
            "features",
            "choice",
            molecule_features.BOTH,
            "What it learns from: Morgan fingerprints, RDKit's descriptors, or both.",
            choices=molecule_features.CHOICES,
        ),
        Param(
            "split",
            "choice",
            ITEM,
            "scaffold: molecules with the same Bemis-Murcko scaffold share a split, in this run alone.",
            choices=(ITEM, SCAFFOLD),
        ),
        Param(
            "n_estimators",
            "int",
            None,
            f"Rounds of boosting, or trees of the forest. Left out: {ROUNDS} and {TREES}.",
            minimum=1,
            maximum=10_000,
            optional=True,
        ),
        Param(
            "class_weights",
            "choice",
            NONE,
            "balanced: rare labels weigh as much as frequent ones.",
            choices=(NONE, BALANCED),
            advanced=True,
        ),
        Param(
            "radius",
            "int",
            2,
            "How many bonds from its middle a Morgan fingerprint's neighbourhood reaches.",
            minimum=0,
            maximum=8,
            advanced=True,
        ),
        Param(
            "n_bits",
            "int",
            2048,
            "The length of a Morgan fingerprint.",
            minimum=64,
            maximum=16_384,
            advanced=True,
        ),
        Param(
            "model_kwargs",
            "mapping",
            {},
            'Further arguments of the estimator, such as {"max_depth": 6}.',
            advanced=True,
        ),
        Param(
            "calibrate",
            "bool",
            True,
            "Correct the probabilities, when that is measured to help on molecules left out of the fit.",
        ),
        MIN_INSTANCES,
    )
    requires = (
        _RDKIT,
        Requirement("numpy", "numpy"),
        Requirement("scipy", "scipy"),
        Requirement("sklearn", "scikit-learn"),
        Requirement("skops", "skops"),
    )
    install_hint = "pip install rdkit scikit-learn skops"
    licence = Licence("BSD-3-Clause", "https://github.com/rdkit/rdkit/blob/master/license.txt")

    def __init__(self) -> None:
        self._model: PropertyModel | None = None
        self._reporter: Reporter | None = None

    @classmethod
    def item_fields(cls, params: Mapping[str, Any]) -> tuple[str, ...]:
        name = params.get("smiles_field")
        return (str(name),) if name else ()

    @classmethod
    def grouping(cls, params: Mapping[str, Any]) -> Grouping | None:
        if params.get("split") != SCAFFOLD:
            return None
        name = params.get("smiles_field")
        return Grouping(
            SCAFFOLD, lambda row: molecules.scaffold(smiles_of(row, name)), (_RDKIT,), "pip install rdkit"
        )

    def fit(self, context: FitContext) -> dict[str, float]:
        """Fit, calibrate and save; see `Trainer.fit`. Nothing is chosen on val."""
        self._reporter = context.reporter
        with library_warnings.told_once(context.reporter):
            return self._fit(context)

    def predict(self, rows: Iterable[Row]) -> Iterator[Prediction]:
        """Predict a window at a time; an item that is no molecule gets no prediction, and is told of."""
        model = self._fitted()
        invalid, n_rows = molecules.Invalid(), 0
        for window in windows(rows):
            texts = [smiles_of(row, model.smiles_field) for row in window]
            found = molecules.read(texts)
            for number, (payload, confidence) in zip(found.numbers, model.answers(found.found)):
                yield Prediction(str(window[number]["instance_id"]), payload, confidence)
            for number in sorted(set(range(len(window))).difference(found.numbers)):
                invalid.add(str(window[number]["instance_id"]), texts[number])
            n_rows += len(window)
        if invalid.count:
            self._tell(f"{invalid.in_words(n_rows, 'items')}. They get no prediction.")

    @classmethod
    def load(cls, artifacts: Path, device: str = "cpu") -> RdkitProperty:
        """Load a model; `device` has no effect. Raises TrainerError; see model_files for what is safe."""
        try:
            card = model_files.read_card(artifacts)
            model_files.check_versions(card)
            _check_rdkit(card)
            state = model_files.load_model(artifacts)
        except ImportError as missing:
            raise TrainerError(
                "missing_dependency", str(missing), into_this_python(cls.install_hint)
            ) from missing
        trainer = cls()
        try:
            trainer._model = PropertyModel.from_state(state)
        except (AttributeError, IndexError, KeyError, TypeError, ValueError) as failure:
            raise TrainerError(
                "validation_failed", f"{model_files.MODEL} is no model of {cls.name}.", "Train again."
            ) from failure
        return trainer

    def label_order(self) -> list[str]:
        return list(self._fitted().labels)

    def _fitted(self) -> PropertyModel:
        if self._model is None:
            raise TrainerError("fit_failed", "There is no model yet.", "Call fit or load first.")
        return self._model

    def _tell(self, message: str) -> None:
        if self._reporter is not None:
            self._reporter.log(message, level="warning")
        else:
            warnings.warn(message, InvalidMolecules, stacklevel=3)

    def _fit(self, context: FitContext) -> dict[str, float]:
        reporter, params, kind = context.reporter, context.params, context.scheme.kind
        trees = Trees.of(context)
        features = MoleculeFeatures.of(params["features"], params["radius"], params["n_bits"])
        reporter.status("fitting", "computing the features of the molecules")
        train = read_train_molecules(context, features)
        columns = trees.columns(train.matrix)
        matrix, make = train.matrix[:, columns], trees.maker(len(train.matrix))
        reporter.status("fitting", f"fitting {trees.name} to {len(matrix)} molecules")
        fitted = fit_trees(make, kind, matrix, train.rows)
        decided = calibration.decide(
            context, make, matrix, train.rows.targets, train.rows.labels, "molecules"
        )
        self._model = PropertyModel(
            kind=kind,
            labels=train.rows.labels,
            smiles_field=params["smiles_field"] or None,
            features=features,
            columns=columns,
            bits=train.bits,
            estimators=fitted,
            curves=decided.curves,
            bounds=_bounds(context, train.rows),
        )
        score = self._model.train_score(matrix, train.rows.targets)
        self._save(context, decided, trees.name, train)
        return {
            "n_train": float(len(matrix)),
            "n_invalid": float(train.n_invalid),
            "n_features": float(matrix.shape[1]),
            **score,
        }

    def _save(
        self, context: FitContext, decided: calibration.Calibration, name: str, train: TrainMolecules
    ) -> None:
        context.reporter.status("saving", "saving the model")
        context.artifacts.mkdir(parents=True, exist_ok=True)
        model = self._fitted()
        model_files.save_model(context.artifacts, model.state())
        model_files.write_json(context.artifacts / model_files.CALIBRATION, decided.as_json())
        card = {
            "trainer": self.name,
            "scheme": context.scheme.name,
            "annotation_type": context.scheme.annotation_type,
            "kind": context.scheme.kind,
            "classifier": name,
            "features": model.features.state(),
            "split": context.params["split"],
            "calibration": decided.as_json(),
            "label_order": self.label_order(),
            "n_train": len(train.rows.texts),
            "n_invalid": train.n_invalid,
            "bundle_digest": context.bundle_digest,
            "seed": context.seed,
            "params": dict(context.params),
            "versions": {**model_files.versions(), "rdkit": molecule_features.version()},
            "created_at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        model_files.write_json(context.artifacts / model_files.CARD, card)


def _bounds(context: FitContext, rows: TrainRows) -> tuple[float, float]:
    """The least and greatest value that a prediction may take."""
    if context.scheme.kind != kinds.CONTINUOUS:
        return 0.0, 1.0
    return value_range(context.scheme.options, float(rows.targets.min()), float(rows.targets.max()))


def _check_rdkit(card: Mapping[str, Any]) -> None:
    """Warn where another version of RDKit computed the features that the model was fitted to."""
    there = str(dict(card.get("versions") or {}).get("rdkit", ""))
    here = molecule_features.version()
    if there != here:
        warnings.warn(
            f"The model was fitted with RDKit {there or '(unknown)'} and is used with {here}; its features, "
            "and so its predictions, may differ.",
            model_files.ModelVersionWarning,
            stacklevel=3,
        )
