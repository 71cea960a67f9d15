"""What the page of one run shows, gathered from the registry and the run's folder."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from potato_ray.backends.left_on_host import LeftOnHost, are_gone, left_on_host
from potato_ray.errors import Conflict
from potato_ray.job.folder import JobFolder, read_json
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.run_log import SPOKEN, log_lines
from potato_ray.scoring.curves import curves_in
from potato_ray.server.artifact_files import ArtifactFile, artifact_files
from potato_ray.server.context import ServerContext
from potato_ray.server.run_answers import folder_of, hidden, shown_event
from potato_ray.server.score_view import Comparison, compare, missing_words
from potato_ray.trainers import registry as trainer_registry
from potato_ray.trainers.params import complete

LOG_LINES = 200
FILES_SHOWN = 200
TABLE_LABELS = 12
"""A confusion matrix of more labels is told as its most frequent confusions."""
CONFUSIONS = 30
EVENTS_READ_BYTES = 8 << 20
"""The longest events.jsonl that is read for the table of the curves."""

Object = Mapping[str, Any]


@dataclass(frozen=True)
class SplitPictures:
    """The pictures of one split, as addresses ("" where there is none), and their tables."""

    split: str
    n_items: int
    confusion_url: str
    reliability_url: str
    confusion: Object | None
    wide: bool
    n_right: int
    confusions: tuple[tuple[str, str, int], ...]
    bins: tuple[Object, ...]
    ece: float | None


@dataclass(frozen=True)
class Curve:
    """A training curve in figures."""

    name: str
    n_points: int
    first: float
    last: float
    least: float
    most: float


@dataclass(frozen=True)
class Stayed:
    """Where the model files of a run are that did not come home."""

    host: str
    folder: str


@dataclass(frozen=True)
class RunPage:
    """All that the page shows; empty where there is nothing to show."""

    run: Run
    comparison: Comparison | None
    missing: tuple[str, ...]
    splits: tuple[str, ...]
    metric_rows: tuple[tuple[str, tuple[Any, ...]], ...]
    per_label: tuple[tuple[str, Object], ...]
    pictures: tuple[SplitPictures, ...]
    curves_url: str
    curves: tuple[Curve, ...]
    mistakes: Object | None
    warnings: tuple[tuple[str, tuple[str, ...]], ...]
    params: tuple[tuple[str, str, str], ...]
    log: tuple[str, ...]
    log_after: int
    files: tuple[ArtifactFile, ...]
    n_files: int
    remote: LeftOnHost | None
    remote_gone: bool
    can_withdraw: bool
    error: str
    error_evidence: str
    error_next_step: str

    @property
    def ours(self) -> bool:
        """Whether potato_ray made the run; one of Potato's own can neither be followed nor cancelled."""
        return self.run.made_by == "potato_ray"

    @property
    def live(self) -> bool:
        """Whether there is something to follow."""
        return self.ours and not self.run.ended

    @property
    def stayed(self) -> Stayed | None:
        """Where its model files stayed; None when they did not stay anywhere else."""
        host, _, folder = self.run.artifact_uri.partition(":")
        return Stayed(host, folder) if folder and not self.remote_gone else None

    @property
    def reported(self) -> tuple[tuple[str, Any], ...]:
        """What the worker itself reported: counts and training metrics."""
        return tuple(sorted(self.run.metrics.items(), key=lambda each: (not each[0].startswith("n_"), each)))


def run_page(context: ServerContext, run: Run) -> RunPage:
    """The page of a run; reads its row, its events' end and small files of its folder."""
    folder = folder_of(context, run.run_id)
    job = JobFolder(folder) if folder is not None and run.made_by == "potato_ray" else None
    files = artifact_files(job.path) if job is not None else []
    log, log_after = _log(context, run)
    drawn = {each.path for each in files}
    splits = tuple(run.scores.get("splits") or ())
    return RunPage(
        run=run,
        comparison=compare(context.reader, run),
        missing=tuple(missing_words(run.scores)),
        splits=splits,
        metric_rows=tuple(_metric_rows(run)),
        per_label=tuple((split, run.scores["splits"][split].get("per_label") or {}) for split in splits),
        pictures=tuple(_pictures(run, split, drawn) for split in splits),
        curves_url=_url(run, "curves.svg") if "curves.svg" in drawn else "",
        curves=tuple(_curves(job)) if job is not None and "curves.svg" in drawn else (),
        mistakes=_mistakes(job) if job is not None else None,
        warnings=grouped(hidden(context, each) for each in run.warnings),
        params=tuple(_params(run, job)),
        log=log,
        log_after=log_after,
        files=tuple(files[:FILES_SHOWN]),
        n_files=len(files),
        remote=_remote(context, run, folder),
        remote_gone=are_gone(run, folder),
        can_withdraw=_can_withdraw(context, run),
        error=hidden(context, run.error),
        error_evidence=hidden(context, run.error_evidence),
        error_next_step=hidden(context, run.error_next_step),
    )


def _remote(context: ServerContext, run: Run, folder: Path | None) -> LeftOnHost | None:
    """What stays on a host that the server can log in to; None for nothing."""
    try:
        return left_on_host(context.config, run, folder)
    except Conflict:
        return None


# --- scores ---------------------------------------------------------------------------------------


def _metric_rows(run: Run) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """(name, the value of each split) of every metric, the main one first."""
    scores = list((run.scores.get("splits") or {}).values())
    if not scores:
        return
    names = [name for each in scores for name in each["metrics"]]
    for name in dict.fromkeys(names):
        values = tuple(each["metrics"].get(name) for each in scores)
        if any(value is not None for value in values):
            yield name, values
    if any(each.get("ece") is not None for each in scores):
        yield "ece", tuple(each.get("ece") for each in scores)
    yield "coverage", tuple(each.get("coverage") for each in scores)


def _pictures(run: Run, split: str, drawn: set[str]) -> SplitPictures:
    scores = run.scores["splits"][split]
    confusion = scores.get("confusion")
    matrix = confusion["matrix"] if confusion else []
    matrix_name, reliability_name = f"{split}_confusion_matrix.svg", f"{split}_reliability.svg"
    return SplitPictures(
        split=split,
        n_items=scores["n_items"],
        confusion_url=_url(run, matrix_name) if matrix_name in drawn else "",
        reliability_url=_url(run, reliability_name) if reliability_name in drawn else "",
        confusion=confusion if confusion and len(confusion["labels"]) <= TABLE_LABELS else None,
        wide=bool(confusion) and len(confusion["predicted"]) > 6,
        n_right=sum(row[i] for i, row in enumerate(matrix)),
        confusions=tuple(_confusions(confusion)) if confusion else (),
        bins=tuple(scores.get("bins") or ()),
        ece=scores.get("ece"),
    )


def _confusions(confusion: Object) -> list[tuple[str, str, int]]:
    """(human, predicted, how often) of the most frequent confusions."""
    found = [
        (human, predicted, count)
        for human, row in zip(confusion["labels"], confusion["matrix"], strict=True)
        for predicted, count in zip(confusion["predicted"], row, strict=True)
        if count and human != predicted
    ]
    return sorted(found, key=lambda each: -each[2])[:CONFUSIONS]


def _curves(job: JobFolder) -> Iterator[Curve]:
    """The curves in figures; none where events.jsonl is missing, or too long for a page."""
    try:
        if job.events.stat().st_size > EVENTS_READ_BYTES:
            return
        found = curves_in(job.events)
    except OSError:
        return
    for name, points in found.items():
        values = [value for _, value in points]
        yield Curve(name, len(points), values[0], values[-1], min(values), max(values))


def _url(run: Run, name: str) -> str:
    return f"/admin/training/api/runs/{run.run_id}/artifacts/{name}"


def _mistakes(job: JobFolder) -> Object | None:
    """What finish_run left in mistakes.json, where it can be read."""
    body = _small(job.mistakes)
    return body if body is not None and body.get("v") == 1 and body.get("splits") else None


def _small(path: Path) -> dict[str, Any] | None:
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None


# --- what else ------------------------------------------------------------------------------------


def _params(run: Run, job: JobFolder | None) -> Iterator[tuple[str, str, str]]:
    """(name, value, what set it) of every parameter; the value is that of the spec, which is complete."""
    spec = _small(job.spec) if job is not None else None
    params = (spec or {}).get("params")
    trained = params if isinstance(params, dict) else {}
    untrained = {name: value for name, value in run.params.items() if name not in trained}
    for name, value in {**trained, **untrained}.items():
        shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        yield name, shown, "this run" if name in run.params else _set_by(run.trainer, name, value)


def _set_by(trainer: str, name: str, value: Any) -> str:
    """What has set a parameter that the start did not name; told by its value, as a run keeps no more."""
    known = trainer_registry.offered_trainer(trainer)
    defaults = complete(known) if known else {}
    if name not in defaults:
        return "configuration or default"
    return "default" if value == defaults[name] else "configuration"


_GROUPS = (
    ("Files that could not be read", r"could not be read|was left out: its user_id|torn"),
    ("What the annotators agree on", r"\b(is a tie|are ties)\b|disagree|without a majority"),
    ("Which items are held out", r"moved into train|has changed from|are split by|group_key"),
    ("Write-back", r"gate is warn|published all the same|are stored and not shown|see no pre-label"),
    ("Answers and items", r"\bitems?\b|text\(s\)|answer|correction\(s\)|picture\(s\)|annotation"),
)
_OTHERS = "The run itself"


def grouped(warnings: Iterator[str]) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """The warnings by what they are about, in a fixed order of groups."""
    found: dict[str, list[str]] = {name: [] for name in (*(name for name, _ in _GROUPS), _OTHERS)}
    for warning in warnings:
        name = next((name for name, words in _GROUPS if re.search(words, warning)), _OTHERS)
        found[name].append(warning)
    return tuple((name, tuple(each)) for name, each in found.items() if each)


def _log(context: ServerContext, run: Run) -> tuple[tuple[str, ...], int]:
    """The last lines of the log, and the id of the last event that is in them."""
    events = context.reader.newest_events(run.run_id, SPOKEN, LOG_LINES)
    lines = log_lines(shown_event(context, event) for event in events)
    return tuple(lines), int(events[-1]["id"]) if events else 0


def _can_withdraw(context: ServerContext, run: Run) -> bool:
    """Whether predictions of the run are stored that somebody could withdraw."""
    if run.made_by != "potato_ray" or not run.ended or run.state is State.CANCELLED:
        return False
    stored = context.reader.predictions(run.run_id)
    try:
        return next(stored, None) is not None
    finally:
        stored.close()
