"""Following a run in the terminal: a bar where there is a terminal, step lines where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import Any

from potato_ray.cli.output import say
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import ENDED

POLL_S = 0.1


def follow(
    reader: RegistryReader,
    run_id: str,
    *,
    sleep: Callable[[float], None] = time.sleep,
    terminal: bool | None = None,
) -> Run:
    """Wait until a run has ended, showing its steps; the ended run.

    Ends by itself when the run does: every step of a run has a limit of its own. Ctrl-C raises
    KeyboardInterrupt.
    """
    drawing = _Bar() if (sys.stderr.isatty() if terminal is None else terminal) else _Lines()
    with drawing:
        while True:
            run = reader.run(run_id)
            drawing.show(run)
            if run.state in ENDED:
                return run
            sleep(POLL_S)


def step_line(run: Run) -> str:
    """What a run is doing now, in one line."""
    if run.position:
        return f"waiting #{run.position}" + (f": {run.step}" if run.step else "")
    if run.cancel_requested_at and run.state not in ENDED:
        return "cancelling"
    return f"{run.state}: {run.step}" if run.step else str(run.state)


class _Lines:
    """Step lines for logs and pipes: one each time the step changes."""

    def __init__(self) -> None:
        self._last = ""

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, run: Run) -> None:
        line = step_line(run)
        if line != self._last:
            self._last = line
            say(line)


class _Bar:
    """A progress bar with the step line; unknown totals pulse."""

    def __init__(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.fields[count]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._progress.add_task("starting", total=None, count="")

    def __enter__(self) -> _Bar:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, run: Run) -> None:
        fields: dict[str, Any] = {"total": None, "completed": 0, "count": ""}
        if run.total:
            fields = {
                "total": run.total,
                "completed": run.current,
                "count": f"{run.current:,.0f}/{run.total:,.0f}",
            }
        self._progress.update(self._task, description=step_line(run), **fields)
