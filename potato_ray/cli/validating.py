"""`potato-ray validate`."""

from __future__ import annotations

from pathlib import Path

from potato_ray.cli.output import out, print_json
from potato_ray.config import validate


def run_validate(config: Path, *, strict: bool, as_json: bool) -> int:
    """Print every finding; the exit code."""
    result = validate(config)
    if as_json:
        print_json({**result.as_json(), "ok": result.exit_code(strict) == 0})
    else:
        out(result.as_text(strict))
    return result.exit_code(strict)
