"""`potato-ray training check`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

from potato_ray.backends.making import make_backend
from potato_ray.cli.output import out, print_json
from potato_ray.config import load


def run_check(name: str, config: Path, *, as_json: bool) -> int:
    """Print a backend's check report; 0 when a run could start."""
    report = make_backend(name, load(config)).check()
    if as_json:
        print_json({**asdict(report), "ok": report.ok})
    else:
        out(report.summary)
        for check in report.checks:
            out(f"  {'ok ' if check.ok else 'NO '} {check.name}: {check.message}")
            if not check.ok and check.next_step:
                out(f"      {check.next_step}")
        out("A run could start." if report.ok else "A run could not start.")
    return 0 if report.ok else 1
