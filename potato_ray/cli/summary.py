"""A run in words: the held-out score with what it is compared with, and why nothing was published."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from potato_ray.backends.left_on_host import are_gone
from potato_ray.cli.output import duration, when
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State


def score_line(run: Run) -> str:
    """`val macro_f1 0.796 (95 % interval 0.71 to 0.87, 28 items) · baseline 0.39 · previous run 0.78`."""
    headline = run.scores.get("headline")
    if headline:
        return headline_line(headline)
    if run.state != State.SUCCESS:
        return ""
    note = str(run.scores.get("note") or "not scored")
    return f"{note} (no labelled item is in val or test)" if not (run.n_val or run.n_test) else note


def headline_line(headline: Mapping[str, Any]) -> str:
    """A headline score with what it is compared with."""
    parts = [f"{headline['split']} {headline['metric']} {headline['value']:.3f}{_interval(headline)}"]
    if headline.get("baseline") is not None:
        parts.append(f"baseline {headline['baseline']:.3f}")
    if headline.get("previous") is not None:
        parts.append(f"previous run {headline['previous']:.3f}")
    if not headline.get("comparable", True):
        parts.append("not directly comparable with earlier runs")
    if headline.get("lower_is_better"):
        parts.append("lower is better")
    return " · ".join(parts)


def _interval(headline: Mapping[str, Any]) -> str:
    low, high = headline.get("low"), headline.get("high")
    count, note = headline["n_items"], headline.get("interval_note")
    items = f"{count} item{'' if count == 1 else 's'}"
    if low is None or high is None:
        return f" ({items}, no 95 % interval: {note})" if note else f" ({items})"
    return f" (95 % interval {low:.3f} to {high:.3f}, {items})"


def end_lines(run: Run, task_dir: Path) -> Iterator[str]:
    """What a person wants to know when a run of the project in `task_dir` has ended."""
    yield f"run {run.run_id}: {run.state}"
    if run.state == State.SUCCESS:
        yield f"held-out score: {score_line(run)}"
        if blind := run.scores.get("blind"):
            yield f"on items labelled without a pre-label: {headline_line(blind)}"
        if run.writeback:
            yield str(run.writeback.get("summary", ""))
            if withdrawn_at := run.writeback.get("withdrawn_at"):
                yield f"withdrawn at {when(withdrawn_at)}: none of them is shown or stored any more"
    elif run.error:
        yield f"{run.error_code}: {run.error}"
        yield from (line for line in (run.error_evidence, run.error_next_step) if line)
    if run.state != State.SUCCESS and (folder := _files(run, task_dir)):
        yield f"What its trainer had saved is in {folder}"
    yield from (f"warning: {warning}" for warning in run.warnings)


def _files(run: Run, task_dir: Path) -> str:
    """The folder of a run's files from here; "" where it has none."""
    folder = task_dir / run.artifact_dir
    is_there = bool(run.artifact_dir) and folder.is_dir() and any(folder.iterdir())
    return os.path.relpath(folder) if is_there else ""


def step_of(run: Run) -> str:
    """`waiting for SLURM job 4242: PENDING (Priority)`: what a run that has not ended does; "" of others."""
    return "" if run.ended else " ".join((run.step or run.phase).split())


def detail_lines(run: Run, task_dir: Path) -> Iterator[str]:
    """Everything about one run of the project in `task_dir`, for `training show`."""
    yield from end_lines(run, task_dir)
    if step := step_of(run):
        yield f"step: {step}"
    yield ""
    yield f"trainer   {run.trainer} on {run.scheme}, backend {run.backend}"
    if run.params:
        yield "params    " + ", ".join(f"{key}={value}" for key, value in run.params.items())
    if run.n_train is not None:
        sizes = (
            ("train", run.n_train),
            ("val", run.n_val),
            ("test", run.n_test),
            ("unlabeled", run.n_unlabeled),
        )
        yield "items     " + ", ".join(f"{count or 0} {name}" for name, count in sizes)
    yield f"created   {when(run.created_at)}"
    if run.cancel_requested_at:
        yield f"cancel    asked for at {when(run.cancel_requested_at)}"
    if run.duration_s is not None:
        yield f"took      {duration(run.duration_s)}, ended {when(run.finished_at)}"
    elif run.finished_at:
        unstarted = "" if run.started_at else ", before its worker started"
        yield f"ended     {when(run.finished_at)}{unstarted}"
    for name, value in sorted(_metrics(run).items()):
        yield f"  {name:32} {_number(name, value)}"
    if run.artifact_dir and run.state == State.SUCCESS:
        yield f"files     {os.path.relpath(task_dir / run.artifact_dir)}"
    if run.artifact_uri and not are_gone(run, (task_dir / run.artifact_dir).parent):
        host, _, folder = run.artifact_uri.partition(":")
        yield f"model     its files stay on {host}: {folder}"


def _number(name: str, value: float | None) -> str:
    """A metric's value, a dash for one that is no number; counts as they are counted."""
    if value is None:
        return "–"
    is_count = name.startswith("n_") or name.endswith(("_epoch", "_epochs", "_steps"))
    return f"{value:.0f}" if is_count and float(value).is_integer() else f"{value:.4f}"


def _metrics(run: Run) -> dict[str, Any]:
    return {**run.metrics, **(run.scores.get("metrics") or {})}
