"""Showing how far a run is: a bar where there is a terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from potato_ray.client.records import RunRecord

Progress = bool | Callable[[RunRecord], None]
"""True: a bar on stderr where that is a terminal. A function is called with the run at each change."""


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
    """A progress bar with a step line on stderr; unknown totals pulse."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=None, count="")

    def __enter__(self) -> Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, line: str, current: float, total: float) -> None:
        """`total` 0: how much there is to do is not known."""
        count = f"{current:,.0f}/{total:,.0f}" if total else ""
        self._progress.update(self._task, description=line, completed=current if total else 0, count=count)
        # `update` cannot take a total away.
        self._progress.tasks[0].total = total or None
