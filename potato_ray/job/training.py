"""The work of a worker: find the trainer, check the data, fit, predict, report."""

from __future__ import annotations

import importlib
import platform
import random
import socket
import sys
from typing import Any, Mapping

from potato_ray.job.bundle_files import TRAIN, BundleFiles
from potato_ray.job.collection import collect_seldom, pass_over_what_is_loaded
from potato_ray.job.device import choose_device
from potato_ray.job.event_log import EventLog
from potato_ray.job.folder import JobFolder
from potato_ray.job.prediction_file import PredictionFile
from potato_ray.job.spec import JobSpec
from potato_ray.trainers import kinds
from potato_ray.trainers.base import MIN_INSTANCES, FitContext, Reporter, Trainer, TrainerError
from potato_ray.trainers.registry import require_packages, require_trainer

_FEW_LABELS_MATTER = (kinds.NOMINAL, kinds.ORDINAL)
_METRIC_PREFIXES = ("train_", "n_")
SEEDS = 2**32
"""NumPy's generators take no greater seed; a study's split_seed may be any whole number from 0 on."""


class Training:
    """One job from spec to result event. Every failure is an exception (failures.py describes them)."""

    def __init__(self, folder: JobFolder, spec: JobSpec, log: EventLog, reporter: Reporter) -> None:
        self.folder = folder
        self.spec = spec
        self.events = log
        self.reporter = reporter
        self.scheme = spec.schemes[0]

    def run(self) -> None:
        """Ends with the result event; raises TrainerError, BundleUnreadable, or what the trainer raises."""
        self.reporter.status("starting", "loading the trainer")
        kind = require_trainer(self.spec.trainer, self.spec.trainer_package, socket.gethostname())
        self._import_packages(kind)
        pass_over_what_is_loaded()
        if not _needs_torch(kind):  # circles of its objects may hold a GPU's memory
            collect_seldom()
        self.reporter.status("loading", "reading the bundle")
        bundle = BundleFiles(self.folder.path / self.spec.bundle_dir)
        self._check_modality(bundle, kind)
        self._check_amount(bundle, kind.name)
        self._check_labels(bundle)
        context = self._context(bundle, self._device(kind))
        seed_everything(self.spec.seed % SEEDS)
        self.reporter.status("fitting", f"fitting {kind.name}")
        trainer = kind()
        metrics = self._training_metrics(trainer.fit(context))
        self.reporter.status("predicting", "predicting on items that the model has not seen")
        writer = PredictionFile(self.folder.predictions, self.scheme.name, self.reporter)
        n_predictions = writer.write(trainer, bundle)
        self.reporter.status("saving", "listing the model's files")
        self._report_artifacts()
        self.events.write(
            "result",
            metrics=metrics,
            label_order=trainer.label_order(),
            notes=[],
            predictions_file=self.folder.predictions.name,
            n_predictions=n_predictions,
            model_version=f"{kind.name}-{self.scheme.name}-{self.spec.run_id}",
        )

    def _import_packages(self, kind: type[Trainer]) -> None:
        require_packages(kind, socket.gethostname(), self.spec.params)
        for need in kind.requires:
            # Here rather than in fit: a broken package is then never taken for a failure of the fit.
            importlib.import_module(need.module)

    def _check_modality(self, bundle: BundleFiles, kind: type[Trainer]) -> None:
        """Before the amount: more labels would not help a trainer that cannot read the items."""
        modality = str(bundle.manifest.get("modality") or "text")
        if modality not in kind.modalities:
            raise TrainerError(
                "validation_failed",
                f"The items are {'pictures' if modality == 'image' else modality}, and {kind.name} learns "
                f"from {' and '.join(kind.modalities)}.",
                "Choose a trainer for them, or name a field of text as item_properties.text_key.",
            )

    def _check_amount(self, bundle: BundleFiles, trainer: str) -> None:
        n_items = bundle.n_items()
        n_train = n_items.get(TRAIN, 0)
        needed = self.spec.params.get(MIN_INSTANCES.name, MIN_INSTANCES.default)
        if n_train >= needed:
            return
        raise TrainerError(
            "validation_failed",
            f"Only {n_train} items in the train split; {trainer} needs {needed} (min_instances). "
            f"{_whereabouts(n_items)}",
            "Label more items, lower min_instances, or give train a larger share in model_training.splits.",
        )

    def _check_labels(self, bundle: BundleFiles) -> None:
        if self.scheme.kind not in _FEW_LABELS_MATTER:
            return
        found = _first_labels(bundle, self.scheme.name, enough=2)
        if len(found) >= 2:
            return
        only = f": every item of the train split is {found[0]!r}" if found else ""
        elsewhere = "Another label occurs only in val or test. " if len(self.scheme.labels) > 1 else ""
        raise TrainerError(
            "validation_failed",
            f"Schema '{self.scheme.name}' has {len(found)} distinct label(s) in the data{only}. "
            f"{elsewhere}A model needs at least two to tell apart.",
            "Label items that get another answer, and check that the annotators do not merely disagree.",
        )

    def _device(self, kind: type[Trainer]) -> str:
        where = f"Python {platform.python_version()} on {socket.gethostname()}"
        if not _needs_torch(kind):
            late = kind.also_requires(self.spec.params)
            self.reporter.log(where if late else f"{where}, {kind.name} computes on the CPU")
            return "cpu"
        return self._torch_device(f"{where}, {kind.name} computes")

    def _torch_device(self, what: str = "torch computes") -> str:
        choice = choose_device(self.spec.limits.device, importlib.import_module("torch"))
        self.reporter.log(f"{what} on {choice.description}")
        if choice.warning:
            self.reporter.log(choice.warning, "warning")
        return choice.device

    def _context(self, bundle: BundleFiles, device: str) -> FitContext:
        self.folder.artifacts.mkdir(exist_ok=True)
        return FitContext(
            scheme=self.scheme,
            params=self.spec.params,
            rows=bundle.rows,
            n_rows=bundle.n_rows(),
            artifacts=self.folder.artifacts,
            media=bundle.media,
            seed=self.spec.seed % SEEDS,
            device=device,
            reporter=self.reporter,
            bundle_digest=bundle.digest,
            late_device=self._torch_device,
        )

    def _training_metrics(self, metrics: Mapping[str, float]) -> dict[str, float]:
        """Without the names that could pass for held-out scores; those are left out and named."""
        kept = {name: value for name, value in metrics.items() if name.startswith(_METRIC_PREFIXES)}
        dropped = sorted(set(metrics) - set(kept))
        if dropped:
            self.reporter.log(
                f"Left out: {', '.join(dropped)}. A training metric's name starts with train_ or n_.",
                "warning",
            )
        return kept

    def _report_artifacts(self) -> None:
        for path in sorted(self.folder.artifacts.rglob("*")):
            if path.is_file() and not path.is_symlink():
                name = path.relative_to(self.folder.artifacts).as_posix()
                self.events.write("artifact", path=name, bytes=path.stat().st_size)


def seed_everything(seed: int) -> None:
    """Seed the global generators of the libraries that are loaded; `seed` is below SEEDS."""
    random.seed(seed)
    numpy: Any = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(seed)


def _needs_torch(kind: type[Trainer]) -> bool:
    return any(need.module == "torch" for need in kind.requires)


def _whereabouts(n_items: Mapping[str, int]) -> str:
    labelled = {split: n_items.get(split, 0) for split in (TRAIN, "val", "test")}
    held_out = " and ".join(f"{labelled[split]} in {split}" for split in ("val", "test") if labelled[split])
    total = sum(labelled.values())
    return f"{total} labelled items have an agreed answer, {held_out}." if held_out else ""


def _first_labels(bundle: BundleFiles, scheme: str, enough: int) -> list[Any]:
    """Up to `enough` distinct targets of the train split; stops reading as soon as it has them."""
    found: list[Any] = []
    for row in bundle.rows(TRAIN):
        target = row.get("targets", {}).get(scheme)
        if target is not None and target not in found:
            found.append(target)
            if len(found) >= enough:
                break
    return found
