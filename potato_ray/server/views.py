"""What the Training page shows: the form's choices, the runs, and the state of things, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from potato_ray.backends.making import describe
from potato_ray.config.models import ProjectConfig
from potato_ray.config.trainer_checks import LOCAL_ONLY
from potato_ray.config.training_checks import LOCAL
from potato_ray.project.schemes import Scheme, schemes_of
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.server.context import Phase, ServerContext
from potato_ray.server.form_fields import Field, fields_of
from potato_ray.server.hiding import hide_paths
from potato_ray.server.overview import CurrentRun
from potato_ray.server.wording import number
from potato_ray.trainers import registry as trainers
from potato_ray.trainers.base import Licence, Trainer

KEY_METRICS = 6


@dataclass(frozen=True)
class BackendChoice:
    """One entry of the menu `Runs on`."""

    name: str
    label: str
    description: str
    chosen: bool


@dataclass(frozen=True)
class TrainerChoice:
    """A trainer and its part of the form. `schemes` are those that it can learn, in their order."""

    name: str
    description: str
    schemes: tuple[str, ...]
    fields: tuple[Field, ...]
    licence: Licence
    unavailable: str
    local_only: bool

    @property
    def plain(self) -> list[Field]:
        return [field for field in self.fields if not field.advanced]

    @property
    def advanced(self) -> list[Field]:
        return [field for field in self.fields if field.advanced]


@dataclass(frozen=True)
class SchemeChoice:
    """A scheme that some trainer can learn."""

    name: str
    annotation_type: str
    description: str


@dataclass(frozen=True)
class LeftOut:
    """Something that cannot be chosen, and why."""

    name: str
    reason: str


@dataclass(frozen=True)
class StartForm:
    """The choices of the form. `first` is the trainer that is shown at the beginning: one that can run."""

    trainers: tuple[TrainerChoice, ...]
    schemes: tuple[SchemeChoice, ...]
    backends: tuple[BackendChoice, ...]
    left_out_schemes: tuple[LeftOut, ...]
    left_out_trainers: tuple[LeftOut, ...]

    @property
    def first(self) -> str:
        def rank(trainer: TrainerChoice) -> tuple[bool, bool, bool, int]:
            confirm, own = trainer.licence.needs_confirmation, trainer.name in trainers.BUILT_IN
            return bool(trainer.unavailable), confirm, not own, -len(trainer.schemes)

        return min(self.trainers, key=rank).name if self.trainers else ""


@dataclass(frozen=True)
class Score:
    """A held-out score for a cell: the figure, its interval, split and metric; all in one sentence."""

    value: str
    interval: str
    what: str
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


@dataclass(frozen=True)
class Filters:
    """What chooses among the runs: the present choice, and what may be chosen."""

    offered: bool
    active: bool
    status: str
    trainer: str
    statuses: tuple[str, ...]
    trainers: tuple[str, ...]


@dataclass(frozen=True)
class Trouble:
    """What people should know of the controller before they start anything."""

    level: str
    title: str
    text: str


def start_form(config: ProjectConfig) -> StartForm:
    """The form for this project; imports no training library."""
    schemes = schemes_of(config.annotation_schemes)
    known = trainers.all_trainers()
    choices = [_trainer_choice(trainer, schemes, config) for trainer in known]
    learnable = {name for choice in choices for name in choice.schemes}
    return StartForm(
        trainers=tuple(choice for choice in choices if choice.schemes),
        schemes=tuple(_scheme_choice(each) for each in schemes if each.name in learnable),
        backends=tuple(_backends(config)),
        left_out_schemes=tuple(
            LeftOut(f"{each.name} ({each.annotation_type})", _why_not(each, known))
            for each in schemes
            if each.name not in learnable
        ),
        left_out_trainers=(
            *(LeftOut(each.name, _learns_nothing(each)) for each in choices if not each.schemes),
            *(LeftOut(broken.name, broken.reason) for broken in trainers.broken_trainers()),
        ),
    )


def _trainer_choice(
    trainer: type[Trainer], schemes: Sequence[Scheme], config: ProjectConfig
) -> TrainerChoice:
    available, reason, hint = trainers.availability(trainer)
    return TrainerChoice(
        name=trainer.name,
        description=trainer.description,
        schemes=tuple(
            each.name for each in schemes if trainers.learns(trainer, each.kind, each.annotation_type)
        ),
        fields=fields_of(trainer, config.model_training.trainer_params.get(trainer.name, {})),
        licence=trainer.licence,
        unavailable="" if available else f"{reason} On the server: {hint}".strip(),
        local_only=trainer.name in LOCAL_ONLY,
    )


def _scheme_choice(scheme: Scheme) -> SchemeChoice:
    return SchemeChoice(scheme.name, scheme.annotation_type, str(scheme.options.get("description") or ""))


def _learns_nothing(choice: TrainerChoice) -> str:
    return f"{choice.description} It learns none of this project's schemes."


def _why_not(scheme: Scheme, known: Iterable[type[Trainer]]) -> str:
    if scheme.why_not:
        return scheme.why_not
    return f"No trainer here learns from annotations of type {scheme.annotation_type}."


def _backends(config: ProjectConfig) -> Iterable[BackendChoice]:
    training = config.model_training
    for name in (LOCAL, *training.backends):
        description = training.backends[name].description if name in training.backends else ""
        yield BackendChoice(name, describe(name, config), description, chosen=name == training.backend)


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
        reason=hide_paths(_reason(run), context.config.task_dir),
    )


def status_label(run: Run) -> str:
    """`waiting #2` while it waits for its turn, else its status."""
    if run.cancelling:
        return "cancelling"
    return waiting_label(run.position) if run.status == State.QUEUED else run.status


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
    interval = _interval(headline)
    notes = [
        what + (f", 95 % interval {interval}" if interval else ""),
        f"{headline['n_items']} items" if headline.get("n_items") is not None else "",
        f"baseline {number(headline['baseline'])}" if headline.get("baseline") is not None else "",
        f"previous run {number(headline['previous'])}" if headline.get("previous") is not None else "",
        "lower is better" if headline.get("lower_is_better") else "",
        "" if headline.get("comparable", True) else "not directly comparable with earlier runs",
    ]
    sentence = "; ".join(note for note in notes if note)
    return Score(_figure(headline["value"]), interval, what, sentence)


def _interval(headline: Mapping[str, Any]) -> str:
    low, high = headline.get("low"), headline.get("high")
    return "" if low is None or high is None else f"{_figure(low)}–{_figure(high)}"


def _figure(value: float) -> str:
    return f"{value:.3f}" if abs(value) < 1000 else number(value)


def key_metrics(metrics: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The newest figures of a run under way, a few of them, counts last."""
    named = sorted(metrics.items(), key=lambda each: (each[0].startswith("n_"), each[0]))
    return [(name, number(value)) for name, value in named if value is not None][:KEY_METRICS]


def waiting_label(position: int) -> str:
    """`waiting #2`; a run on offer to an agent holds no place."""
    return f"waiting #{position}" if position else "waiting for an agent"


BLANK_RUN = CurrentRun(
    run_id="",
    status="",
    trainer="",
    schemas=[],
    backend="",
    device="",
    attempt=1,
    begun_at=None,
    started_at=None,
    elapsed_s=0.0,
    step="",
    phase="",
    current=0.0,
    total=0.0,
    eta_s=None,
    metrics={},
    warnings=[],
    writeback=None,
)
"""For the template from which the page's script makes the card of a run that begins."""


def trouble_of(now: Mapping[str, Any]) -> Trouble | None:
    """What an Overview says of a controller that is not ready; None when it is."""
    if now["controller"] == Phase.FAILED:
        error = now["errors"][0] if now["errors"] else _WORDLESS
        text = " ".join(part for part in (error["evidence"], error["next_step"]) if part)
        return Trouble("error", f"Runs cannot be started: {error['error']}", text)
    return _PHASES.get(now["controller"])


_WORDLESS = {"error": "Ray did not start.", "evidence": "", "next_step": ""}

_PHASES: Mapping[str, Trouble] = {
    Phase.STARTING: Trouble(
        "busy", "The server is starting.", "A run that is started now begins as soon as Ray is up."
    ),
    Phase.RESTARTING: Trouble(
        "busy",
        "The controller is being restarted.",
        "Runs under way go on; what is shown here may be a few seconds old.",
    ),
    Phase.STOPPING: Trouble("busy", "The server is stopping.", "Nothing can be started any more."),
}
