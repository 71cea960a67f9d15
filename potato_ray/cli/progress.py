"""Following a run in the terminal: a bar where there is a terminal, step lines where there is none."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from potato_ray.cli.losing import MAX_SILENCES, controller_lost
from potato_ray.cli.output import duration, say
from potato_ray.errors import Conflict
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import ENDED, State

POLL_S = 0.1
ASK_EVERY_S = 3.0
MOST_NAMED = 2
"""So many of the runs that are under way are named to whoever waits."""
PROGRESS_EVERY_S = 30.0
"""Without a terminal, a step that goes on says so often how far it is."""


def follow(
    reader: RegistryReader,
    run_id: str,
    *,
    alive: Callable[[], bool],
    lost: Callable[[Run], Conflict] = lambda run: controller_lost(run.run_id),
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    terminal: bool | None = None,
) -> Run:
    """Wait until a run has ended, showing its steps; the ended run.

    A run has no end of its own while nobody brings it there, so `alive` says every few seconds whether
    the controller answers. Raises what `lost` gives (controller_lost) when it did not, three times in a row;
    Ctrl-C raises KeyboardInterrupt.
    """
    drawing = _Bar() if (sys.stderr.isatty() if terminal is None else terminal) else _Lines(clock)
    watch, ahead = _Watch(alive, clock), _Ahead(reader, clock)
    with drawing:
        while True:
            run = reader.run(run_id)
            drawing.show(run, ahead.before(run))
            if run.state in ENDED:
                return run
            if watch.is_lost():
                raise lost(run)
            sleep(POLL_S)


class _Watch:
    """Asks whether the controller is alive, not more often than every ASK_EVERY_S."""

    def __init__(self, alive: Callable[[], bool], clock: Callable[[], float]) -> None:
        self._alive = alive
        self._clock = clock
        self._asked_at = clock()
        self._silences = 0

    def is_lost(self) -> bool:
        if self._clock() - self._asked_at >= ASK_EVERY_S:
            self._silences = 0 if self._alive() else self._silences + 1
            self._asked_at = self._clock()
        return self._silences >= MAX_SILENCES


class _Ahead:
    """What holds the slot that a waiting run waits for, looked up not more often than every ASK_EVERY_S."""

    def __init__(self, reader: RegistryReader, clock: Callable[[], float]) -> None:
        self._reader = reader
        self._clock = clock
        self._asked_at = float("-inf")
        self._words = ""

    def before(self, run: Run) -> str:
        """`: run … (setfit) is under way`; "" for a run that does not wait, or whose step says why."""
        if not run.position or run.step:
            return ""
        if self._clock() - self._asked_at >= ASK_EVERY_S:
            self._asked_at = self._clock()
            current = self._reader.snapshot().current
            named = ", ".join(f"{each.run_id} ({each.trainer})" for each in current[:MOST_NAMED])
            more = f" and {len(current) - MOST_NAMED} more" if len(current) > MOST_NAMED else ""
            self._words = (
                f": under way {'is' if len(current) == 1 else 'are'} {named}{more}" if current else ""
            )
        return self._words


def step_line(run: Run) -> str:
    """What a run is doing now, in one line."""
    if run.position:
        return f"waiting #{run.position}" + (f": {run.step}" if run.step else "")
    if run.cancel_requested_at and run.state not in ENDED:
        return "cancelling"
    if run.state is State.OFFERED:
        return run.step or "waiting for an agent"
    return f"{run.state}: {run.step}" if run.step and not run.ended else str(run.state)


class _Lines:
    """Step lines for logs and pipes: one each time the step changes, and of a long step how far it is."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._last = ""
        self._current = 0.0
        self._said_at = clock()

    def __enter__(self) -> _Lines:
        return self

    def __exit__(self, *_: object) -> None:
        return

    def show(self, run: Run, ahead: str = "") -> None:
        line = step_line(run) + ahead
        if line != self._last:
            self._last, self._current = line, 0.0
            self._say(line)
        elif run.current != self._current and not run.cancel_requested_at and self._is_due():
            self._current = run.current
            self._say(f"{line}: {_how_far(run)}")

    def _is_due(self) -> bool:
        return self._clock() - self._said_at >= PROGRESS_EVERY_S

    def _say(self, line: str) -> None:
        self._said_at = self._clock()
        say(line)


def _how_far(run: Run) -> str:
    """`40 of 100, about 2 min 05 s left`, the time where the trainer says it."""
    done = f"{run.current:,.0f} of {run.total:,.0f}" if run.total else f"{run.current:,.0f}"
    if run.eta_s is None:
        return done
    left_s = max(0.0, run.eta_s)
    return f"{done}, about {f'{left_s:.0f} s' if left_s < 60 else duration(left_s)} left"


class _Bar:
    """A progress bar with the step line."""

    def __init__(self) -> None:
        from potato_ray.client.progress import Bar

        self._bar = Bar()

    def __enter__(self) -> _Bar:
        self._bar.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.__exit__()

    def show(self, run: Run, ahead: str = "") -> None:
        self._bar.show(step_line(run) + ahead, run.current, run.total)
