"""What the commands print: JSON or tables on stdout, errors and messages on stderr."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import zip_longest
from pathlib import Path
from typing import Any

from potato_ray.errors import PotatoRayError

GAP = "  "
_NAME = "potato-ray"


def program() -> str:
    """How this command was called, for lines that are to be typed: `potato-ray` only where that finds it."""
    called = sys.argv[0] if sys.argv else ""
    if Path(called).name != _NAME:
        return _NAME
    found = shutil.which(_NAME)
    is_found = found is not None and Path(found).resolve() == Path(called).resolve()
    return _NAME if is_found else shlex.quote(called)


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
    width = shutil.get_terminal_size().columns if sys.stderr.isatty() else None
    for line in error_lines(error, width):
        say(line)


def error_lines(error: PotatoRayError, width: int | None = None) -> Iterator[str]:
    """An error in lines; what belongs to a line is indented below it. `width` None: lines of any length."""
    yield from _wrapped(f"Error ({error.code}): {error.message}", "", width)
    for part in (error.evidence, error.next_step):
        for line in part.strip("\n").splitlines():
            yield from _wrapped(line, "  ", width)


def _wrapped(text: str, indent: str, width: int | None) -> Iterator[str]:
    if width is None:
        yield indent + text
        return
    deeper = indent + "  "
    # Paths, keys and commands stay whole, so that they can be copied.
    yield from textwrap.wrap(
        text,
        max(width, 40),
        initial_indent=indent,
        subsequent_indent=deeper,
        break_long_words=False,
        break_on_hyphens=False,
    )


def print_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    width: int,
    whole: Collection[str],
    notes: Sequence[str] = (),
) -> None:
    """A plain table on stdout; columns as wide as their widest cell.

    Where that is more than `width`, the widest columns are cut, with a … at the end; those whose
    heading is in `whole` are not. `notes`: a line below each row, indented, "": none.
    """
    body = [list(headings), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in body) for i in range(len(headings))]
    cuttable = [i for i, heading in enumerate(headings) if heading not in whole]
    for _ in range(sum(widths) + len(GAP) * (len(widths) - 1) - width):
        widest = max(cuttable, key=lambda i: widths[i])
        widths[widest] -= widths[widest] > 1
    for row, note in zip_longest(body, ("", *notes), fillvalue=""):
        out(GAP.join(_cut(cell, each).ljust(each) for cell, each in zip(row, widths, strict=True)).rstrip())
        if note:
            out(GAP + _cut(note, width - len(GAP)))


def _cut(cell: str, width: int) -> str:
    return cell if len(cell) <= width else cell[: width - 1] + "…"


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
