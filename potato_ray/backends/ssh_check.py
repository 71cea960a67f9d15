"""The report of `training check NAME` for a host that is reached by ssh: what a run would find there."""

from __future__ import annotations

import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from potato_ray.backends.base import Check, CheckReport, Placement, Refusal
from potato_ray.backends.choice import state_of
from potato_ray.backends.gpus import Card, slots_of
from potato_ray.backends.host_report import MIN_DISK_MB, HostReport
from potato_ray.backends.local_check import uses_gpu
from potato_ray.backends.ssh_placing import HostGpus
from potato_ray.errors import PotatoRayError
from potato_ray.trainers import registry
from potato_ray.trainers.base import Trainer
from potato_ray.trainers.installing import into_python, lacking

OLDEST_PYTHON = (3, 8)


@dataclass(frozen=True)
class Looked:
    """What was found on a host; `placed` is what a run that can use a GPU would get now.

    `way_back`: whether its agent could reach the server.
    """

    report: HostReport
    gpus: HostGpus
    placed: Placement | Refusal
    way_back: Check


def modules_of_trainers() -> tuple[str, ...]:
    """The modules that any trainer needs: what a host is asked for."""
    every = (registry.needs_of(trainer) for trainer in registry.all_trainers())
    return tuple(sorted({need.module for needs in every for need in needs}))


def reached(
    name: str, type_: str, description: str, looked: Looked, packages: Sequence[str] = ()
) -> CheckReport:
    """The report on a host that could be logged in to; `packages` are installed there before a run."""
    report = looked.report
    trainers = {each.name: _trainer(each, report, packages) for each in registry.all_trainers()}
    placed = looked.placed
    return CheckReport(
        backend=name,
        type=type_,
        summary=f"{name}: {placed.step.partition(': ')[2]}"
        if isinstance(placed, Placement)
        else f"{description}. {placed.message}",
        checks=(
            login_check(report),
            looked.way_back,
            python_check(report),
            _device_check(placed, trainers),
            *(_card_check(card, looked.gpus) for card in looked.gpus.listing.cards),
            *_smi_check(looked.gpus),
            disk_check(report, packages),
            Check("path", ok=True, message=f"PATH there: {report.search_path}"),
            *_trainer_checks(trainers),
        ),
        facts=_facts(looked, trainers),
    )


def unreached(name: str, type_: str, description: str, error: PotatoRayError) -> CheckReport:
    """The report on a host that could not be logged in to, or on which nothing of ours can work."""
    message = " ".join(part for part in (error.message, error.evidence) if part)
    check = Check("ssh", ok=False, message=message, next_step=error.next_step)
    facts = {"probed_at": time.time(), **error.as_dict()}
    return CheckReport(name, type_, f"{description}. {error.message}", checks=(check,), facts=facts)


def _facts(looked: Looked, trainers: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    report, placed = looked.report, looked.placed
    return {
        "probed_at": time.time(),
        "host": report.host,
        "user": report.user,
        "python": report.python,
        "python_version": report.version,
        "remote_dir": report.remote_dir,
        "path": report.search_path,
        "disk_free_mb": report.free_disk_mb,
        "device": placed.device if isinstance(placed, Placement) else None,
        "gpu_uuids": list(placed.gpu_uuids) if isinstance(placed, Placement) else [],
        "gpus": _cards(looked.gpus),
        "nvidia_smi": looked.gpus.listing.problem,
        "torch": report.torch.version if report.torch else None,
        "trainers": dict(trainers),
    }


def login_check(report: HostReport) -> Check:
    """Where the login has led to."""
    return Check("ssh", ok=True, message=f"logged in to {report.host} as {report.user or 'you'}")


def python_check(report: HostReport) -> Check:
    """Whether the interpreter of an agent is recent enough."""
    parts = re.findall(r"\d+", report.version)[:2]
    recent = tuple(int(part) for part in parts) >= OLDEST_PYTHON
    return Check(
        "python",
        ok=recent,
        message=f"Python {report.version} ({report.python})",
        next_step="" if recent else "Name a Python 3.8 or later with the key python.",
    )


def _device_check(placed: Placement | Refusal, trainers: Mapping[str, Mapping[str, Any]]) -> Check:
    if isinstance(placed, Placement):
        what = placed.step.rpartition(", CUDA ")[2] if placed.gpu_uuids else "the CPU"
        return Check("device", ok=True, message=" ".join((f"a run would get {what}", *placed.warnings)))
    # The full GPU is nothing to the trainers that have no use for one.
    needed = any(trainer["available"] and trainer["uses_gpu"] for trainer in trainers.values())
    message = f"{placed.message} {placed.evidence}".rstrip()
    return Check("device", ok=not needed, message=message, next_step=placed.next_step)


def _card_check(card: Card, gpus: HostGpus) -> Check:
    message = state_of(card, kernels=gpus.kernels)
    if card.utilisation_percent is not None:
        message += f", {card.utilisation_percent:.0f} % busy"
    return Check("gpu", ok=True, message=message)


def _smi_check(gpus: HostGpus) -> list[Check]:
    listing = gpus.listing
    if listing.cards:
        return []
    message = listing.problem if listing.installed and listing.problem else "no GPU"
    return [Check("gpu", ok=True, message=message)]


def _cards(gpus: HostGpus) -> list[dict[str, Any]]:
    slots, kernels = slots_of(gpus.listing.cards), gpus.kernels
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
        for card in gpus.listing.cards
    ]


def disk_check(report: HostReport, packages: Sequence[str] = ()) -> Check:
    """Whether remote_dir can be used, for a list of packages too."""
    where, free_mb = report.remote_dir, report.free_disk_mb
    if report.problem:
        words = f"{where} cannot be used: {report.problem}"
        return Check("disk", ok=False, message=words, next_step="Set remote_dir to a writable folder.")
    if packages and report.runs_no_programs:
        words = f"Packages cannot be installed below {where}: its disk runs no programs (noexec)"
        return Check("disk", ok=False, message=words, next_step="Set remote_dir to a folder elsewhere.")
    if free_mb is None:
        return Check("disk", ok=True, message=f"The free space of {where} is unknown")
    enough = free_mb >= MIN_DISK_MB
    return Check(
        "disk",
        ok=enough,
        message=f"{free_mb:.0f} MB free for {where}",
        next_step="" if enough else f"Free some space: a run needs at least {MIN_DISK_MB:.0f} MB.",
    )


def _trainer(trainer: type[Trainer], report: HostReport, packages: Sequence[str]) -> dict[str, Any]:
    absent = [need for need in registry.needs_of(trainer) if report.modules.get(need.module) is None]
    missing = [need.package for need in absent]
    # What a list of packages brings with it is known once it is installed.
    unsure = bool(missing and packages and not report.has_environment)
    install = into_python(report.python, registry.install_line(trainer, absent))
    hint = f"List {', '.join(missing)} under the key packages; or run on {report.host}: {install}"
    return {
        "available": unsure or not missing,
        "unsure": unsure,
        "missing": missing,
        "reason": lacking(missing, report.python, report.host) if missing and not unsure else "",
        "install_hint": hint if missing and not unsure else "",
        "uses_gpu": uses_gpu(trainer),
    }


def _trainer_checks(trainers: Mapping[str, Mapping[str, Any]]) -> list[Check]:
    """One line for each trainer. A missing package is no failure while another trainer can run."""
    any_runs = any(trainer["available"] for trainer in trainers.values())
    return [
        Check(
            "trainer",
            ok=trainer["available"] or any_runs,
            message=f"{name}: {_readiness(trainer)}",
            next_step=trainer["install_hint"],
            is_note=any_runs and not trainer["available"],
        )
        for name, trainer in trainers.items()
    ]


def _readiness(trainer: Mapping[str, Any]) -> str:
    if trainer["unsure"]:
        return "known once the packages are installed, which the first run does"
    return "ready" if trainer["available"] else str(trainer["reason"])
