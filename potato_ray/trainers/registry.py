"""Which trainers there are, without importing any training library.

Three kinds of trainer are known: those of this package, those that other packages announce under the
entry-point group `potato_ray.trainers` (the entry point's name is the trainer's name), and classes
handed to `register`, which tests use.

A worker is a process of its own and knows nothing of `register`, so a spec may name a class as
`module:Class`; `get_trainer` and `require_trainer` import it. That is for specs, which this program
wrote itself. A name that comes from a request or from a configuration must be in `trainer_names()`,
or be looked up with `offered_trainer`, which imports nothing that nobody announced.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
from dataclasses import dataclass
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any, Iterable, Mapping, Sequence

from potato_ray.trainers.base import Requirement, Trainer, TrainerError
from potato_ray.trainers.installing import into_this_python, lacking
from potato_ray.trainers.model_files import CARD, read_card

ENTRY_POINT_GROUP = "potato_ray.trainers"

BUILT_IN = {
    "sklearn-text": "potato_ray.trainers.sklearn_text:SklearnText",
    "setfit": "potato_ray.trainers.setfit_text:SetFitText",
    "hf-text-classification": "potato_ray.trainers.hf_text:HfTextClassification",
    "rdkit-property": "potato_ray.trainers.rdkit_property:RdkitProperty",
}
"""Trainer → its class, as `module:Class`; the one that asks for least comes first, and is begun with."""

_CLASS_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*")

_registered: dict[str, type[Trainer]] = {}


@dataclass(frozen=True)
class BrokenTrainer:
    """An announced trainer that cannot be used; `reason` is a sentence for the log and the pages."""

    name: str
    reason: str


def trainer_names() -> list[str]:
    """The names that a request or a configuration may use, sorted."""
    return sorted({*BUILT_IN, *_announced()[0], *_registered})


def all_trainers() -> list[type[Trainer]]:
    """Every usable trainer, by name."""
    found = (offered_trainer(name) for name in trainer_names())
    return [trainer for trainer in found if trainer is not None]


def broken_trainers() -> list[BrokenTrainer]:
    """The announced trainers that cannot be used, with the reason; they never stop the others."""
    return list(_announced()[1])


def offered_trainer(name: str) -> type[Trainer] | None:
    """The trainer that goes by `name`, or None; safe for names from outside."""
    if name in _registered:
        return _registered[name]
    if name in BUILT_IN:
        return _load(BUILT_IN[name])
    return _announced()[0].get(name)


def get_trainer(name: str) -> type[Trainer] | None:
    """The trainer that a spec names, by name or as `module:Class`, or None when it cannot be had."""
    try:
        return require_trainer(name)
    except TrainerError:
        return None


def require_trainer(name: str, package: str = "", host: str = "") -> type[Trainer]:
    """The trainer that a spec names, by name or as `module:Class`; `package` is what announces it elsewhere.

    Raises TrainerError: bad_spec when nothing goes by that name, missing_dependency when it is known
    but could not be imported, or its package is not here.
    """
    trainer = offered_trainer(name)
    if trainer is not None:
        return trainer
    if _CLASS_PATH.fullmatch(name):
        return _import_for_spec(name)
    for broken in broken_trainers():
        if broken.name == name:
            raise TrainerError("missing_dependency", broken.reason, "Repair or remove its package.")
    if package:
        raise TrainerError(
            "missing_dependency",
            f"Trainer '{name}' could not be imported: {lacking([package], host=host)}",
            f"{into_this_python(f'pip install {package}')}, or the same with the package's folder or wheel.",
        )
    raise TrainerError(
        "bad_spec", f"There is no trainer '{name}'.", f"The trainers here are {', '.join(trainer_names())}."
    )


def spec_name(trainer: type[Trainer]) -> str:
    """What a spec must call `trainer` so that a worker process finds it."""
    if trainer.name in _registered:
        return f"{trainer.__module__}:{trainer.__qualname__}"
    return trainer.name


def package_of(trainer: type[Trainer]) -> Requirement | None:
    """The package of somebody else's that announces `trainer`, as `name==version`; None for all others.

    Its code is not shipped: the Python that trains must have it. Only in the server's own Python (3.11).
    """
    if trainer.name in BUILT_IN or trainer.name in _registered:
        return None
    for point in _entry_points():
        if point.name == trainer.name and getattr(point, "dist", None) is not None:
            module = point.value.partition(":")[0].partition(".")[0]
            return Requirement(module, f"{point.dist.name}=={point.dist.version}")
    return None


def needs_of(trainer: type[Trainer]) -> tuple[Requirement, ...]:
    """All that another Python needs to train with it: its packages and, first, its own."""
    own = package_of(trainer)
    return (*([own] if own else []), *trainer.requires)


def install_line(trainer: type[Trainer], absent: Sequence[Requirement]) -> str:
    """What installs those of `needs_of(trainer)` that are `absent`, for `into_python`."""
    own = package_of(trainer)
    if own is None or own not in absent:
        return trainer.install_hint
    return " ".join(["pip install", *(need.package for need in absent)])


def register(trainer: type[Trainer]) -> type[Trainer]:
    """Add a trainer to this process; usable as a decorator. Raises ValueError when the name is taken."""
    known = offered_trainer(trainer.name)
    if known is not None and known is not trainer:
        raise ValueError(f"There is a trainer '{trainer.name}' already: {known.__module__}")
    _registered[trainer.name] = trainer
    return trainer


def load_trainer(artifacts: Path, device: str = "cpu") -> Trainer:
    """The trained model in a run's artifacts folder, by the trainer that model_card.json names.

    Only trainers of `trainer_names()` count: a file never decides what is imported. Raises
    TrainerError when there is no model, no such trainer, or the files cannot be used.
    """
    card = read_card(artifacts)
    name = str(card.get("trainer", ""))
    trainer = offered_trainer(name)
    if trainer is None:
        raise TrainerError(
            "validation_failed",
            f"{CARD} names the trainer '{name}', which is not known here.",
            f"The trainers here are {', '.join(trainer_names())}.",
        )
    params = card.get("params")
    require_packages(trainer, params=params if isinstance(params, dict) else None)
    return trainer.load(artifacts, device)


def trainers_for(kind: str | None, annotation_type: str) -> list[type[Trainer]]:
    """The trainers that can learn a scheme of this kind and type, by name."""
    return [trainer for trainer in all_trainers() if learns(trainer, kind, annotation_type)]


def learns(trainer: type[Trainer], kind: str | None, annotation_type: str) -> bool:
    """Whether `trainer` can learn a scheme of this kind and type."""
    types = trainer.annotation_types
    return kind in trainer.kinds and (types is None or annotation_type in types)


def missing_packages(trainer: type[Trainer], params: Mapping[str, Any] | None = None) -> list[Requirement]:
    """The packages of `trainer` (with `params`, complete ones) that this interpreter lacks; imports none."""
    more = trainer.also_requires(params) if params is not None else ()
    return not_installed((*trainer.requires, *more))


def not_installed(needs: Iterable[Requirement]) -> list[Requirement]:
    """Those of `needs` that this interpreter lacks; imports none."""
    return [need for need in needs if not _is_installed(need.module)]


def availability(trainer: type[Trainer]) -> tuple[bool, str, str]:
    """Whether `trainer` could run in this interpreter: (available, reason, install hint)."""
    missing = missing_packages(trainer)
    if not missing:
        return True, "", ""
    reason = lacking(need.package for need in missing)
    return False, reason, into_this_python(trainer.install_hint)


def require_packages(trainer: type[Trainer], host: str = "", params: Mapping[str, Any] | None = None) -> None:
    """Raise TrainerError (missing_dependency) where this interpreter, on `host`, lacks packages of `trainer`.

    `params`: with those parameters, complete ones. Its next step is the line that installs them.
    """
    missing = missing_packages(trainer, params)
    if missing:
        more = [need.package for need in missing if need not in trainer.requires]
        reason = lacking((need.package for need in missing), host=host)
        raise TrainerError(
            "missing_dependency",
            f"Trainer '{trainer.name}' could not be imported: {reason}",
            into_this_python(" ".join([trainer.install_hint, *more])),
        )


def _is_installed(module: str) -> bool:
    # Only the top-level name: find_spec of a submodule would import its parents.
    top = module.partition(".")[0]
    try:
        return importlib.util.find_spec(top) is not None
    except (ImportError, ValueError):
        return False


def _import_for_spec(path: str) -> type[Trainer]:
    try:
        return _load(path)
    except Exception as failure:
        raise TrainerError(
            "missing_dependency",
            f"Trainer '{path}' could not be imported: {_in_words(failure)}",
            "Install what its module imports in the worker's Python.",
        ) from failure


def _load(path: str) -> type[Trainer]:
    module_name, _, class_name = path.partition(":")
    return _checked(getattr(importlib.import_module(module_name), class_name))


def _checked(found: Any) -> type[Trainer]:
    if not (isinstance(found, type) and issubclass(found, Trainer)):
        raise TypeError("it is no subclass of potato_ray.trainers.base.Trainer")
    return found


@lru_cache(maxsize=1)
def _announced() -> tuple[dict[str, type[Trainer]], tuple[BrokenTrainer, ...]]:
    """What other packages announce: the usable trainers by name, and the others."""
    usable: dict[str, type[Trainer]] = {}
    broken = []
    for point in _entry_points():
        try:
            usable[point.name] = _announced_trainer(point, usable)
        except Exception as failure:  # noqa: BLE001 - a foreign package must not stop the others
            reason = f"Trainer '{point.name}' could not be imported: {_in_words(failure)}"
            broken.append(BrokenTrainer(point.name, reason))
    return usable, tuple(broken)


def _announced_trainer(point: Any, before: Iterable[str]) -> type[Trainer]:
    if point.name in BUILT_IN or point.name in before:
        raise ValueError("another trainer has this name")
    trainer = _checked(point.load())
    if trainer.name != point.name:
        raise ValueError(f"its class calls itself '{trainer.name}'")
    return trainer


def _entry_points() -> list[Any]:
    every: Any = metadata.entry_points()
    if hasattr(every, "select"):
        group = every.select(group=ENTRY_POINT_GROUP)
    else:
        group = every.get(ENTRY_POINT_GROUP, ())
    # On Python 3.8 an installed package may stand twice.
    points = {(point.name, point.value): point for point in group}
    return [points[key] for key in sorted(points)]


def _in_words(failure: BaseException) -> str:
    return f"{type(failure).__name__}: {failure}" if str(failure) else type(failure).__name__
