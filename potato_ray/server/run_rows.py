"""The runs as tables show them: status, score, place and reason of each, in words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from potato_ray.config.training_checks import LOCAL
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.server.context import ServerContext
from potato_ray.server.run_answers import hidden
from potato_ray.server.wording import number
from potato_ray.server.wording import score as figure

SHORT_ID = 12
"""The most characters that a table has of a run's id."""


@dataclass(frozen=True)
class Score:
    """A held-out score for a cell: the figure, its interval, split, metric, `note`; all in one sentence."""

    value: str
    interval: str
    what: str
    note: str
    sentence: str


@dataclass(frozen=True)
class RunRow:
    """A run in the table. `started_at` is None for one that never left the queue."""

    run: Run
    label: str
    score: Score | None
    no_score: str
    sizes: str
    ran_on: str
    started_at: float | None
    took_s: float | None
    reason: str

    @property
    def short_id(self) -> str:
        """The end of the run's id, which tells runs of one minute apart: `1f2e3d`."""
        return self.run.run_id.rpartition("-")[2][-SHORT_ID:]


@dataclass(frozen=True)
class Filters:
    """What chooses among the runs: the present choice, and what may be chosen."""

    offered: bool
    active: bool
    status: str
    trainer: str
    statuses: tuple[str, ...]
    trainers: tuple[str, ...]


def row_of(context: ServerContext, run: Run) -> RunRow:
    """A run as the table has it."""
    score = score_of(run.scores.get("headline") or run.headline)
    return RunRow(
        run=run,
        label=status_label(run),
        score=score,
        no_score="" if score else _no_score(run),
        sizes="" if run.n_train is None else f"{run.n_train} / {run.n_val or 0} / {run.n_test or 0}",
        ran_on=ran_on(run),
        started_at=run.started_at or run.begun_at,
        took_s=run.duration_s,
        reason=hidden(context, _reason(run)),
    )


def status_label(run: Run) -> str:
    """`waiting #2` while it waits for its turn, else its status."""
    if run.cancelling:
        return "cancelling"
    return waiting_label(run.position, run.step) if run.status == State.QUEUED else run.status


def ran_on(run: Run) -> str:
    """`local · cuda:0`, `cluster · node07`; runs of Potato's own are marked."""
    parts = [run.backend, run.host if run.backend != LOCAL else "", run.device]
    made_by = "" if run.made_by == "potato_ray" else "by Potato"
    return " · ".join(part for part in (*parts, made_by) if part)


def _reason(run: Run) -> str:
    if run.state is State.ERROR:
        return run.error or run.error_code or "It failed without a word."
    if run.state is State.INTERRUPTED:
        return run.error or "Its worker was gone when the server came back."
    return ""


def _no_score(run: Run) -> str:
    if run.state is not State.SUCCESS:
        return ""
    return str(run.scores.get("note") or "not scored")


def score_of(headline: Mapping[str, Any] | None) -> Score | None:
    """The cell for a headline score; None when there is none."""
    if not headline or headline.get("value") is None:
        return None
    what = f"{headline['split']} {headline['metric']}"
    interval, note = _interval(headline), "lower is better" if headline.get("lower_is_better") else ""
    notes = [
        what + (f", 95 % interval {interval}" if interval else ""),
        f"no 95 % interval: {headline['interval_note']}" if headline.get("interval_note") else "",
        _counted(headline["n_items"]) if headline.get("n_items") is not None else "",
        f"baseline {figure(headline['baseline'])}" if headline.get("baseline") is not None else "",
        f"previous run {figure(headline['previous'])}" if headline.get("previous") is not None else "",
        note,
        "" if headline.get("comparable", True) else "not directly comparable with earlier runs",
    ]
    sentence = "; ".join(note for note in notes if note)
    return Score(figure(headline["value"]), interval, what, note, sentence)


def _interval(headline: Mapping[str, Any]) -> str:
    low, high = headline.get("low"), headline.get("high")
    return "" if low is None or high is None else f"{figure(low)}–{figure(high)}"


def _counted(count: int) -> str:
    return f"{number(count)} item{'' if count == 1 else 's'}"


def waiting_label(position: int, step: str = "") -> str:
    """`waiting #2`; a run on offer to an agent holds no place, and its step says what else it waits for."""
    return f"waiting #{position}" if position else step or "waiting for an agent"
