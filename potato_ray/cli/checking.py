"""`potato-ray training check`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.backends.agents_seen import ADDRESS
from potato_ray.backends.making import make_backend
from potato_ray.cli.output import out, print_json
from potato_ray.config import load

if TYPE_CHECKING:
    from potato_ray.backends.base import CheckReport
    from potato_ray.config.models import ProjectConfig


def run_check(name: str, config: Path, *, as_json: bool) -> int:
    """Print a backend's check report; 0 when a run could start."""
    loaded = load(config)
    report = make_backend(name, loaded).check()
    if as_json:
        print_json({**asdict(report), "ok": report.ok})
    else:
        _print(report, loaded)
    return 0 if report.ok else 1


def _print(report: CheckReport, config: ProjectConfig) -> None:
    out(report.summary)
    for check in report.checks:
        out(f"  {'ok ' if check.ok else 'NO '} {check.name}: {check.message}")
        if not check.ok and check.next_step:
            out(f"      {check.next_step}")
    for warning in _addressed(report.facts.get("warnings", ()), config):
        out(f"Warning: {warning}")
    out("A run could start." if report.ok else "A run could not start.")


def _addressed(warnings: Sequence[str], config: ProjectConfig) -> list[str]:
    """The warnings, with the server's address in commands where there is a server."""
    if not any(ADDRESS in warning for warning in warnings):
        return list(warnings)
    from potato_ray.cli.registering import server_seen

    address = server_seen(config).address
    return [warning.replace(ADDRESS, address) for warning in warnings]
