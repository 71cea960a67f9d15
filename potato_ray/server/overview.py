"""The status of a project as routes, pages and streams give it: one moment, told in full.

What has ended is nowhere in it but in `last` (and `writeback`, which says whose it is): `run`, `runs`, the
step line, the metrics and the warnings are those of runs in progress.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from potato_ray.backends.agents_seen import is_present
from potato_ray.registry.runs import Run
from potato_ray.registry.snapshot import Snapshot
from potato_ray.registry.states import State
from potato_ray.server.context import Phase, ServerContext
from potato_ray.server.run_answers import hidden
from potato_ray.server.trouble import Trouble, trouble_of


class ControllerTrouble(BaseModel):
    """An error with what to do about it."""

    error: str
    error_code: str
    evidence: str = ""
    next_step: str = ""


class CurrentRun(BaseModel):
    """A run in progress. `elapsed_s` counts from `begun_at`, when it left the queue."""

    run_id: str
    status: str = Field(description="building, running, evaluating, finishing or cancelling")
    trainer: str
    schemas: list[str]
    backend: str
    device: str
    attempt: int
    begun_at: float | None
    started_at: float | None = Field(description="When its worker started; null before that")
    elapsed_s: float
    step: str
    phase: str
    current: float
    total: float = Field(description="0: how much there is to do is not known")
    eta_s: float | None
    metrics: dict[str, Any]
    warnings: list[str]
    writeback: dict[str, Any] | None
    can_cancel: bool = Field(
        description="Whether it can be cancelled: not twice, and not when it is only scored and written back"
    )


class WaitingRun(BaseModel):
    """A run that waits. `position` counts from 1; 0 when it is on offer to an agent and holds no place."""

    run_id: str
    position: int
    trainer: str
    schemas: list[str]
    backend: str
    created_at: float
    step: str = Field(description="What it waits for, where that is more than its turn or an agent")
    n_agents: int | None = Field(
        description="How many agents that may take it were heard of lately; null where it waits for none"
    )


class EndedRun(BaseModel):
    """The run that ended last."""

    run_id: str
    status: str = Field(description="success, error, cancelled or interrupted")
    trainer: str
    schemas: list[str]
    backend: str
    finished_at: float | None
    headline: dict[str, Any] | None = Field(description="Its held-out score: metric, split, value, …")
    error: str
    error_code: str


EXAMPLE: dict[str, Any] = {
    "state": "running",
    "controller": "ready",
    "run": {
        "run_id": "20261129T122458-f65475",
        "status": "running",
        "trainer": "sklearn-text",
        "schemas": ["sentiment"],
        "backend": "local",
        "device": "cpu",
        "attempt": 1,
        "begun_at": 1795955098.5,
        "started_at": 1795955099.1,
        "elapsed_s": 4.2,
        "step": "fitting",
        "phase": "fitting",
        "current": 3.0,
        "total": 10.0,
        "eta_s": 8.5,
        "metrics": {"train_accuracy": 0.97},
        "warnings": [],
        "writeback": None,
        "can_cancel": True,
    },
    "queue": [
        {
            "run_id": "20261129T122501-0b1c2d",
            "position": 1,
            "trainer": "sklearn-text",
            "schemas": ["topic"],
            "backend": "local",
            "created_at": 1795955101.0,
            "step": "",
            "n_agents": None,
        }
    ],
    "last": None,
    "step": "fitting",
    "phase": "fitting",
    "current": 3.0,
    "total": 10.0,
    "eta_s": 8.5,
    "metrics": {"train_accuracy": 0.97},
    "warnings": [],
    "findings": [],
    "errors": [],
    "trouble": None,
    "skip_reason": None,
    "writeback": None,
    "server_time": 1795955102.7,
}
EXAMPLE["runs"] = [EXAMPLE["run"]]


class Overview(BaseModel):
    """What is going on. The step line, metrics and warnings at the top are those of `run`."""

    model_config = ConfigDict(json_schema_extra={"examples": [EXAMPLE]})

    state: str = Field(
        description="starting, restarting, failed or stopping while the controller is; else the status of the"
        " oldest run in progress; else idle"
    )
    controller: str = Field(description="starting, ready, restarting, failed or stopping")
    run: CurrentRun | None = Field(description="The oldest run in progress")
    runs: list[CurrentRun] = Field(description="Every run in progress, oldest first")
    queue: list[WaitingRun] = Field(description="The runs that wait, oldest first")
    last: EndedRun | None
    step: str
    phase: str
    current: float
    total: float
    eta_s: float | None
    metrics: dict[str, Any]
    warnings: list[str] = Field(description="Warnings of the run")
    findings: list[str] = Field(description="Warnings of the configuration")
    errors: list[ControllerTrouble] = Field(description="Why the controller has failed")
    trouble: Trouble | None = Field(description="What the pages say of a controller that is not ready")
    skip_reason: str | None = Field(description="What automatic retraining waits for; null without it")
    writeback: dict[str, Any] | None = Field(
        description="The newest write-back report, of `run` or else of `last`; `run_id` says whose"
    )
    server_time: float = Field(description="When this was said; all times are epoch seconds UTC")


def overview(context: ServerContext, snapshot: Snapshot, now: float) -> dict[str, Any]:
    """The members of an Overview at `now` (epoch seconds UTC), from a snapshot of the registry.

    Plain values, not the model: names of metrics are the trainer's, and hold what JSON can and the model
    can't (lone surrogates).
    """
    current = [_current(context, run, now) for run in snapshot.current]
    first = current[0] if current else None
    last = snapshot.last
    phase, errors = context.controller.phase, _errors(context)
    return {
        "state": _state(phase, first),
        "controller": phase.value,
        "run": first,
        "runs": current,
        "queue": [_waiting(run, snapshot, now) for run in snapshot.waiting],
        "last": _ended(context, last) if last else None,
        **{name: first[name] if first else empty for name, empty in _OF_THE_FIRST.items()},
        "findings": [hidden(context, each) for each in context.findings],
        "errors": errors,
        "trouble": trouble_of(phase, errors),
        "skip_reason": None,
        "writeback": _writeback([*snapshot.current[:1], *([last] if last else [])]),
        "server_time": now,
    }


_OF_THE_FIRST: dict[str, Any] = {
    "step": "",
    "phase": "",
    "current": 0.0,
    "total": 0.0,
    "eta_s": None,
    "metrics": {},
    "warnings": [],
}


def _state(phase: Phase, first: dict[str, Any] | None) -> str:
    if phase is not Phase.READY:
        return phase.value
    return str(first["status"]) if first else "idle"


def _named(run: Run) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "trainer": run.trainer,
        "schemas": list(run.schemas),
        "backend": run.backend,
    }


def _current(context: ServerContext, run: Run, now: float) -> dict[str, Any]:
    return {
        **_named(run),
        "status": run.status,
        "device": run.device,
        "attempt": run.attempt,
        "begun_at": run.begun_at,
        "started_at": run.started_at,
        "elapsed_s": max(0.0, now - run.begun_at) if run.begun_at is not None else 0.0,
        "step": run.step,
        "phase": run.phase,
        "current": run.current,
        "total": run.total,
        "eta_s": run.eta_s,
        "metrics": dict(run.metrics),
        "warnings": [hidden(context, each) for each in run.warnings],
        "writeback": _writeback([run]),
        "can_cancel": run.can_cancel,
    }


def _waiting(run: Run, snapshot: Snapshot, now: float) -> dict[str, Any]:
    offered = run.state is State.OFFERED
    heard = snapshot.heard.get(run.backend, ())
    return {
        **_named(run),
        "position": run.position,
        "created_at": run.created_at,
        "step": run.step,
        "n_agents": sum(is_present(last_seen, now) for last_seen in heard) if offered else None,
    }


def _ended(context: ServerContext, run: Run) -> dict[str, Any]:
    return {
        **_named(run),
        "status": run.status,
        "finished_at": run.finished_at,
        "headline": dict(run.headline) if run.headline else None,
        "error": hidden(context, run.error),
        "error_code": run.error_code,
    }


def _errors(context: ServerContext) -> list[dict[str, str]]:
    trouble = context.controller.trouble
    if trouble is None:
        return []
    return [{name: hidden(context, text) for name, text in trouble.as_dict().items()}]


def _writeback(runs: Sequence[Run]) -> dict[str, Any] | None:
    """The report of the first of these runs that has one."""
    return next(({**run.writeback, "run_id": run.run_id} for run in runs if run.writeback), None)
