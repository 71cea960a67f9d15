"""The bodies of requests and answers, as the OpenAPI document describes them.

Answers are written as plain JSON from what registry and configuration hold; these models describe them
and are held to them by tests. Times are epoch seconds UTC.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

_EXAMPLE_ID = "20260301T093000-1f2e3d"


class Status(StrEnum):
    """A run's status as people see it; an offered run is shown as queued."""

    QUEUED = "queued"
    BUILDING = "building"
    RUNNING = "running"
    EVALUATING = "evaluating"
    FINISHING = "finishing"
    CANCELLING = "cancelling"
    SUCCESS = "success"
    ERROR = "error"
    CANCELLED = "cancelled"
    INTERRUPTED = "interrupted"


class StartBody(BaseModel):
    """A start. A run's own params win over trainer_params, which win over the trainer's defaults."""

    model_config = ConfigDict(
        extra="forbid",
        strict=True,
        json_schema_extra={
            "examples": [
                {"trainer": "sklearn-text", "schemas": ["sentiment"], "params": {"min_instances": 20}}
            ]
        },
    )

    trainer: str = Field(description="The trainer's name.")
    schemas: list[str] | str = Field(description="The schemes; each trainer fits the first one named.")
    params: dict[str, Any] = Field(default_factory=dict, description="Parameters of the trainer.")
    backend: str | None = Field(default=None, description="Where it runs; default: model_training.backend.")
    accept_licence: bool = Field(default=False, description="Confirms the licence of the trainer's software.")
    queue: bool = Field(default=True, description="Whether it may wait; false: 409 while a run is under way.")


class Started(BaseModel):
    """A run that is going to happen. `position`: its place among the waiting runs; 0: it need not wait."""

    model_config = ConfigDict(
        json_schema_extra={
            "examples": [{"started": True, "run_id": _EXAMPLE_ID, "queued": True, "position": 2}]
        }
    )

    started: Literal[True]
    run_id: str
    queued: bool
    position: int = Field(ge=0)


class Cancelled(BaseModel):
    """`cancelled` is true when the run has ended by this request, false while its worker is being stopped."""

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"run_id": _EXAMPLE_ID, "state": "running", "cancelled": False}]}
    )

    run_id: str
    state: str
    cancelled: bool


class RunSummary(BaseModel):
    """A run in a list: everything but its scores in full."""

    run_id: str
    project: str
    trainer: str
    schemas: list[str]
    kinds: list[str]
    params: dict[str, Any]
    backend: str
    state: str
    status: Status
    attempt: int
    trigger: str
    created_at: float
    accept_licence: bool
    idempotency_key: str | None
    begun_at: float | None
    started_at: float | None
    finished_at: float | None
    cancel_requested_at: float | None
    duration_s: float | None
    position: int
    step: str
    phase: str
    current: float
    total: float
    eta_s: float | None
    metrics: dict[str, Any]
    headline: dict[str, Any] | None
    warnings: list[str]
    error: str
    error_code: str
    error_evidence: str
    error_next_step: str
    n_train: int | None
    n_val: int | None
    n_test: int | None
    n_unlabeled: int | None
    split_seed: int
    bundle_digest: str
    artifact_dir: str
    model_version: str
    host: str
    pid: int | None
    device: str
    gpu_uuids: list[str]
    peak_rss_mb: float
    beats_baseline: bool | None
    writeback: dict[str, Any] | None
    last_seq: int
    made_by: Literal["potato_ray", "potato"]


class Previous(BaseModel):
    """The newest earlier success on the same first scheme; its `metrics` carry the split in their names."""

    run_id: str
    metrics: dict[str, float]


class RunInFull(RunSummary):
    """One run with everything: `scores` of each held-out split, the worker's `result`, what came before.

    `review` counts what reviewers said of its predictions; null while there are no reviews.
    """

    scores: dict[str, Any]
    result: dict[str, Any] | None
    previous: Previous | None
    review: dict[str, Any] | None


class RunList(BaseModel):
    """Runs, newest first; those that Potato itself made are among them."""

    runs: list[RunSummary]
