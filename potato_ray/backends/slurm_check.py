"""The report of `training check NAME` for a login node of SLURM: what can be found out from there."""

from __future__ import annotations

import posixpath
import re
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from potato_ray.agent.slurm.refusals import advice
from potato_ray.backends.base import Check, CheckReport, Placement
from potato_ray.backends.host_report import HostReport
from potato_ray.backends.slurm_settings import SlurmSettings
from potato_ray.backends.ssh_check import disk_check, login_check, python_check
from potato_ray.trainers import registry
from potato_ray.trainers.installing import into_python, lacking

COMMANDS: Final = ("sbatch", "squeue", "scancel", "scontrol")
"""What is looked for; the last one is of use, and no run needs it."""
_CANNOT: Final = {
    "sbatch": "so it cannot submit jobs",
    "squeue": "so it cannot follow jobs",
    "scancel": "so it cannot cancel jobs",
}
_WITH_COMMANDS: Final = (
    "Log in to a node that has it, or set PATH in the backend's env, the usual folders included."
)
_NODE_LOCAL: Final = ("/tmp", "/var/tmp", "/dev/shm")  # noqa: S108 - looked for, not used
_JOB: Final = re.compile(r"^Job \d+ to start at ", re.ASCII)
NODES_UNSEEN: Final = (
    "what a compute node has for itself cannot be seen from a login node: a package that is missing there "
    "ends the first run, with the line that installs it"
)


def reached(
    name: str, settings: SlurmSettings, report: HostReport, way_back: Check, placed: Placement
) -> CheckReport:
    """The report on a login node; `placed` is what a run that can use a GPU would get."""
    return CheckReport(
        backend=name,
        type="slurm",
        summary=placed.step,
        checks=(
            login_check(report),
            way_back,
            *_command_checks(settings, report),
            *_trial_check(settings, report),
            _python_check(report),
            _job_python_check(settings, report),
            _device_check(settings, placed),
            disk_check(report),
            Check("path", ok=True, message=f"PATH there: {_search_path(settings, report)}"),
            *_trainer_notes(settings, report),
            Check("packages", ok=True, message=NODES_UNSEEN, is_note=True),
        ),
        facts=_facts(settings, report, placed),
    )


def _command_checks(settings: SlurmSettings, report: HostReport) -> list[Check]:
    found = report.commands
    missing = [
        Check(
            "slurm",
            ok=False,
            message=f"{settings.host} has no {command} on PATH, {cannot}",
            next_step=_WITH_COMMANDS,
        )
        for command, cannot in _CANNOT.items()
        if not found.get(command)
    ]
    if missing:
        return missing
    places = sorted({posixpath.dirname(path) for name in COMMANDS if (path := found.get(name))})
    names = ", ".join(command for command in COMMANDS if found.get(command))
    checks = [Check("slurm", ok=True, message=f"{names} in {' and '.join(places)}")]
    if not found.get("scontrol"):
        words = "there is no scontrol, so why a job ended is read from its output alone"
        checks.append(Check("slurm", ok=True, message=words, is_note=True))
    return checks


def trial(settings: SlurmSettings) -> list[str] | None:
    """The flags of a job that is only tried; None where they cannot be told apart."""
    try:
        return settings.arguments
    except ValueError:
        return None


def _trial_check(settings: SlurmSettings, report: HostReport) -> list[Check]:
    """Whether SLURM would take a job like a run's, as `sbatch --test-only` says."""
    said = report.trial
    if said is None:
        return []
    lines = [line.removeprefix("sbatch: ").strip() for line in said.text.splitlines() if line.strip()]
    words = lines[-1].removeprefix("error: ").removeprefix("allocation failure: ") if lines else ""
    if said.code == 0:
        when = _JOB.sub(", and could start it at ", words)
        return [Check("job", ok=True, message=f"SLURM would take the job{when if when != words else ''}")]
    # "Node configuration": also while the nodes that could run it are down, for which a job would wait.
    is_certain = said.code is not None and "node configuration" not in words
    next_step = advice(words) if is_certain else ""
    if not next_step:
        message = f"SLURM does not say when a job would start: {words or 'it gave no reason'}"
        return [Check("job", ok=True, message=message, is_note=True)]
    message = f"SLURM would refuse the job: {words} ({_flags(settings)})"
    return [Check("job", ok=False, message=message, next_step=next_step)]


def _python_check(report: HostReport) -> Check:
    check = python_check(report)
    return replace(check, message=f"{check.message}, for the agent on the login node")


def _job_python_check(settings: SlurmSettings, report: HostReport) -> Check:
    whose = "" if settings.names_job_python else ", the value of python"
    message = f"a job on a compute node runs {settings.job_python}{whose}"
    if report.commands.get(settings.job_python, "") is None:
        unseen = f"{message}; on the login node it is not to be found, so look whether it is there"
        return Check("job_python", ok=True, message=unseen, is_note=True)
    return Check("job_python", ok=True, message=message)


def _trainer_notes(settings: SlurmSettings, report: HostReport) -> list[Check]:
    """What each trainer lacks in the job's interpreter, as the login node sees that; no more than notes."""
    if not report.modules:
        return []
    # A shell expands no ~ between quotes.
    python = report.commands.get(settings.job_python) or settings.job_python
    notes = []
    for trainer in registry.all_trainers():
        absent = [need for need in registry.needs_of(trainer) if report.modules.get(need.module) is None]
        lacks = lacking([need.package for need in absent], python, report.host)
        line = into_python(python, registry.install_line(trainer, absent))
        message = f"{trainer.name}: {lacks if absent else f'ready, as {report.host} sees it'}"
        step = f"Run on {report.host}: {line}" if absent else ""
        notes.append(Check("trainer", ok=True, message=message, next_step=step, is_note=True))
    return notes


def _device_check(settings: SlurmSettings, placed: Placement) -> Check:
    if placed.device == "cpu":
        return Check("device", ok=True, message="a run would get the CPU: no gres asks for a GPU")
    message = f"a run would get the GPU that SLURM gives it for {_flags(settings)}"
    return Check("device", ok=True, message=message)


def _flags(settings: SlurmSettings) -> str:
    """What a job asks for, as the configuration has it."""
    further = settings.keys.get("sbatch_args", ())
    return ", ".join([*(f"{name} {value}" for name, value in settings.flags.items()), *further])


def _search_path(settings: SlurmSettings, report: HostReport) -> str:
    """PATH as the commands are looked for by."""
    return settings.env.get("PATH", report.search_path)


def _warnings(settings: SlurmSettings, report: HostReport) -> list[str]:
    """Whole sentences, for what keeps no run from being submitted and may well keep it from its end."""
    found = []
    where = report.remote_dir
    if any(where == place or where.startswith(f"{place}/") for place in _NODE_LOCAL):
        found.append(
            f"remote_dir {where} is local to each machine as a rule: it must be the same folder on the login "
            "node and on the compute nodes."
        )
    if not settings.names_job_python:
        found.append(
            f"job_python is missing, so the job on the compute node will run {settings.job_python}, the "
            "value of python; name an interpreter there that has the trainer's packages."
        )
    return found


def _facts(settings: SlurmSettings, report: HostReport, placed: Placement) -> Mapping[str, Any]:
    return {
        "probed_at": time.time(),
        "host": report.host,
        "user": report.user,
        "python": report.python,
        "python_version": report.version,
        "job_python": settings.job_python,
        "remote_dir": report.remote_dir,
        "path": _search_path(settings, report),
        "disk_free_mb": report.free_disk_mb,
        "device": placed.device,
        "commands": {name: report.commands.get(name) for name in COMMANDS},
        "flags": settings.flags,
        "warnings": _warnings(settings, report),
    }
