"""Showing how far a run is: a bar where there is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from potato_ray.client.records import RunRecord

if TYPE_CHECKING:
    from rich.console import Console

Progress = bool | Callable[[RunRecord], None]
"""True: a bar on stderr where that is a terminal. A function is called with the run at each change."""

WIDEST_BAR = 40
"""In characters; in a terminal of less than 200 it is a fifth of the line."""


@contextmanager
def watching(progress: Progress) -> Iterator[Callable[[RunRecord], None]]:
    """What is to be told of each change of a run."""
    if callable(progress):
        yield progress
    elif progress and sys.stderr.isatty():
        with Bar() as bar:
            yield lambda run: bar.show(run.step_line, run.current, run.total)
    else:
        yield lambda run: None


class Bar:
    """A progress bar with a step line; unknown totals pulse. It is there from the first `show` on.

    `console` left out: stderr. A step line that is too long for the terminal is cut, nothing else is.
    """

    def __init__(self, console: Console | None = None) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
        from rich.table import Column

        console = console or Console(stderr=True)
        # A column with a ratio gets what the others leave.
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")
        self._progress = Progress(
            TextColumn("{task.description}", markup=False, table_column=rest),
            BarColumn(min(console.width // 5, WIDEST_BAR)),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            expand=True,
        )
        self._task = self._progress.add_task("", total=None, count="")

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *_: object) -> None:
        if self._progress.live.is_started:
            self._progress.stop()

    def show(self, line: str, current: float, total: float) -> None:
        """`total` 0: how much there is to do is not known."""
        count = f"{current:,.0f}/{total:,.0f}" if total else ""
        self._progress.update(self._task, description=line, completed=current if total else 0, count=count)
        # `update` cannot take a total away.
        self._progress.tasks[0].total = total or None
        self._progress.start()
