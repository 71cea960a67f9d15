"""What the commands print: JSON or tables on stdout, errors and messages on stderr."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from potato_ray.errors import PotatoRayError


def print_json(body: Any) -> None:
    """One JSON document on stdout."""
    sys.stdout.write(json.dumps(body, ensure_ascii=False, indent=2, default=str) + "\n")


def say(message: str) -> None:
    """One line for people, on stderr."""
    sys.stderr.write(message + "\n")


def out(line: str = "") -> None:
    """One line of a result, on stdout."""
    sys.stdout.write(line + "\n")


def print_error(error: PotatoRayError) -> None:
    """What happened, the evidence, the next step."""
    say(f"Error ({error.code}): {error.message}")
    for part in (error.evidence, error.next_step):
        if part:
            say(f"  {part}")


def print_table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """A plain table on stdout; columns as wide as their widest cell."""
    body = [list(headings), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in body) for i in range(len(headings))]
    for row in body:
        out("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def when(epoch_s: float | None) -> str:
    """A time as people read it, in UTC; "" when there is none."""
    if epoch_s is None:
        return ""
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float | None) -> str:
    """A length of time as people read it; "" when there is none."""
    if seconds is None:
        return ""
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02d} min" if hours else f"{minutes} min {rest:02d} s"
