"""`potato-ray training check`."""

from __future__ import annotations

import shlex
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.backends.agents_seen import ADDRESS
from potato_ray.backends.making import make_backend
from potato_ray.cli.output import out, print_json
from potato_ray.config import load

if TYPE_CHECKING:
    from potato_ray.backends.base import Check, CheckReport
    from potato_ray.config.models import ProjectConfig

NO_SERVER = "No server has the project at present, and agents ask a server for work."


def run_check(name: str, config: Path, *, as_json: bool) -> int:
    """Print a backend's check report; 0 when a run could start."""
    loaded = load(config)
    report = _of_present(make_backend(name, loaded).check(), loaded)
    if as_json:
        print_json({**asdict(report), "ok": report.ok})
    else:
        _print(report)
    return 0 if report.ok else 1


def _mark(check: Check) -> str:
    return " - " if check.is_note else "ok " if check.ok else "NO "


def _print(report: CheckReport) -> None:
    out(report.summary)
    for check in report.checks:
        out(f"  {_mark(check)} {check.name}: {check.message}")
        if check.next_step:
            out(f"      {check.next_step}")
    for warning in report.facts.get("warnings", ()):
        out(f"Warning: {warning}")
    out("A run could start." if report.ok else "A run could not start.")


def _of_present(report: CheckReport, config: ProjectConfig) -> CheckReport:
    """The report of an agent backend with what it owes to the server that is there, or is not."""
    if report.type != "agent":
        return report
    from potato_ray.cli.registering import server_seen

    seen = server_seen(config)
    warnings = [each.replace(ADDRESS, seen.address) for each in report.facts.get("warnings", ())]
    if not seen.is_up:
        start = f"potato-ray start {shlex.quote(str(config.path))} --host 0.0.0.0"
        warnings.insert(0, f"{NO_SERVER} Start one: {start}")
    return replace(report, facts={**report.facts, "warnings": warnings})
