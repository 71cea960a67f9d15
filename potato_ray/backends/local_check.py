"""The report of `training check local`: what a run would find on this machine."""

from __future__ import annotations

import platform
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potato_ray.backends.base import Check, CheckReport, Placement, Refusal
from potato_ray.backends.choice import state_of
from potato_ray.backends.device import Machine
from potato_ray.backends.gpus import Card, slots_of
from potato_ray.trainers import registry
from potato_ray.trainers.base import Trainer

if TYPE_CHECKING:
    from potato_ray.backends.local import LocalSettings

MIN_DISK_MB = 200.0
_BYTES_PER_MB = 1024 * 1024


def uses_gpu(trainer: type[Trainer], params: Mapping[str, Any] | None = None) -> bool:
    """Whether a GPU is of any use to this trainer, with these complete parameters."""
    more = trainer.also_requires(params) if params is not None else ()
    return any(need.module == "torch" for need in (*trainer.requires, *more))


def report(name: str, settings: LocalSettings, machine: Machine, placed: Placement | Refusal) -> CheckReport:
    """`placed` is what a run that can use a GPU would get now."""
    trainers = {trainer.name: _trainer(trainer) for trainer in registry.all_trainers()}
    free_mb = _disk_free_mb(settings.folder)
    return CheckReport(
        backend=name,
        type="local",
        summary=_summary(name, placed),
        checks=(
            _python_check(settings.python),
            _device_check(placed, trainers),
            *(_card_check(card, machine) for card in machine.cards),
            _disk_check(settings.folder, free_mb),
            *_trainer_checks(trainers),
        ),
        facts={
            "probed_at": time.time(),
            "python": settings.python,
            "python_version": platform.python_version(),
            "device": placed.device if isinstance(placed, Placement) else None,
            "gpu_uuids": list(placed.gpu_uuids) if isinstance(placed, Placement) else [],
            "gpus": _cards(machine),
            "nvidia_smi": machine.listing.problem,
            "torch": machine.torch.version if machine.torch else None,
            "disk_free_mb": free_mb,
            "num_threads": settings.num_threads,
            "max_ram_mb": settings.max_ram_mb,
            "trainers": trainers,
        },
    )


def _summary(name: str, placed: Placement | Refusal) -> str:
    return placed.step if isinstance(placed, Placement) else f"{name}: this machine. {placed.message}"


def _python_check(python: str) -> Check:
    found = shutil.which(python) is not None
    return Check(
        "python",
        ok=found,
        message=f"Python {platform.python_version()} ({python})" if found else f"{python} was not found",
        next_step="" if found else "Start potato-ray with an interpreter that exists.",
    )


def _device_check(placed: Placement | Refusal, trainers: Mapping[str, Mapping[str, Any]]) -> Check:
    if isinstance(placed, Placement):
        return Check("device", ok=True, message=" ".join((_what(placed), *placed.warnings)))
    # The full GPU is nothing to the trainers that have no use for one.
    needed = any(trainer["available"] and trainer["uses_gpu"] for trainer in trainers.values())
    message = f"{placed.message} {placed.evidence}".rstrip()
    return Check("device", ok=not needed, message=message, next_step=placed.next_step)


def _what(placed: Placement) -> str:
    return placed.step.partition(": this machine, ")[2]


def _card_check(card: Card, machine: Machine) -> Check:
    message = state_of(card, kernels=machine.kernels)
    if card.utilisation_percent is not None:
        message += f", {card.utilisation_percent:.0f} % busy"
    return Check("gpu", ok=True, message=message)


def _cards(machine: Machine) -> list[dict[str, Any]]:
    slots, kernels = slots_of(machine.cards), machine.kernels
    return [
        {
            "index": card.index,
            "mig_index": card.mig_index,
            "uuid": card.uuid,
            "name": card.name,
            "total_mb": card.total_mb,
            "free_mb": card.free_mb,
            "utilisation_percent": card.utilisation_percent,
            "compute_capability": card.compute_capability,
            "problem": card.problem,
            "kernels": None if kernels is None else kernels(card),
            "slot": slots.get(card.uuid),
        }
        for card in machine.cards
    ]


def _disk_free_mb(folder: Path) -> float | None:
    """Free space where runs will be kept, in MiB; None: unknown."""
    here = folder.absolute()
    while not here.exists() and here != here.parent:
        here = here.parent
    try:
        return shutil.disk_usage(here).free / _BYTES_PER_MB
    except OSError:
        return None


def _disk_check(folder: Path, free_mb: float | None) -> Check:
    if free_mb is None:
        return Check("disk", ok=True, message=f"The free space of {folder} is unknown")
    enough = free_mb >= MIN_DISK_MB
    return Check(
        "disk",
        ok=enough,
        message=f"{free_mb:.0f} MB free for runs",
        next_step="" if enough else f"Free some space: a run needs at least {MIN_DISK_MB:.0f} MB.",
    )


def _trainer(trainer: type[Trainer]) -> dict[str, Any]:
    available, reason, install_hint = registry.availability(trainer)
    return {
        "available": available,
        "reason": reason,
        "install_hint": install_hint,
        "uses_gpu": uses_gpu(trainer),
    }


def _trainer_checks(trainers: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """One line for each trainer. A missing package is no failure while another trainer can run."""
    any_runs = any(trainer["available"] for trainer in trainers.values())
    return [
        Check(
            "trainer",
            ok=trainer["available"] or any_runs,
            message=f"{name}: {'ready' if trainer['available'] else trainer['reason']}",
            next_step=trainer["install_hint"],
            is_note=any_runs and not trainer["available"],
        )
        for name, trainer in trainers.items()
    ]
