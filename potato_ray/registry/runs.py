"""A run as the registry knows it, and how it lies in its row."""

from __future__ import annotations

import json
import math
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from potato_ray.registry.states import ENDED, State


@dataclass(frozen=True)
class NewRun:
    """What somebody asks for; everything in it has been checked. `trigger` is api, cli, auto or page."""

    trainer: str
    schemas: tuple[str, ...]
    kinds: tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    backend: str = "local"
    trigger: str = "api"
    accept_licence: bool = False
    idempotency_key: str | None = None
    split_seed: int = 0


@dataclass(frozen=True)
class Reservation:
    """The place that a run takes when it begins; no `gpu_uuids`: it trains on the CPU."""

    backend: str
    gpu_uuids: tuple[str, ...] = ()
    device: str = ""


@dataclass(frozen=True)
class Reserved:
    """The GPUs that an attempt of a run holds on a backend, since `since` (epoch seconds UTC)."""

    backend: str
    run_id: str
    attempt: int
    since: float
    gpu_uuids: tuple[str, ...]


@dataclass(frozen=True)
class Run:
    """One run. Times are epoch seconds UTC or None, `artifact_dir` is relative to task_dir;
    `artifact_uri` names host and folder of model files that stayed on another machine.

    `started_at` is the worker's start, by its own machine's clock: None for a run that had no worker;
    `begun_at` is when the run left the queue, `offered_at` when it was last put on offer to agents.
    `position` is the place among the waiting runs, counted from 1, else 0. `n_<split>` is None until the
    bundle is built.
    `result` is the worker's result event, `headline` the one of `scores`. `last_seq` is the number of
    worker events of this attempt that are stored. `made_by` is potato for a run that Potato itself made.
    """

    run_id: str
    project: str
    trainer: str
    schemas: tuple[str, ...]
    kinds: tuple[str, ...]
    params: Mapping[str, Any]
    backend: str
    state: State
    attempt: int
    trigger: str
    created_at: float
    accept_licence: bool = False
    idempotency_key: str | None = None
    begun_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    cancel_requested_at: float | None = None
    offered_at: float | None = None
    position: int = 0
    step: str = ""
    phase: str = ""
    current: float = 0.0
    total: float = 0.0
    eta_s: float | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    headline: Mapping[str, Any] | None = None
    result: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""
    error_code: str = ""
    error_evidence: str = ""
    error_next_step: str = ""
    n_train: int | None = None
    n_val: int | None = None
    n_test: int | None = None
    n_unlabeled: int | None = None
    split_seed: int = 0
    bundle_digest: str = ""
    artifact_dir: str = ""
    artifact_uri: str = ""
    model_version: str = ""
    host: str = ""
    pid: int | None = None
    device: str = ""
    gpu_uuids: tuple[str, ...] = ()
    peak_rss_mb: float = 0.0
    beats_baseline: bool | None = None
    writeback: Mapping[str, Any] | None = None
    last_seq: int = 0
    made_by: str = "potato_ray"

    @property
    def scheme(self) -> str:
        """The scheme that it trains, the first one named; "" where Potato's own run names none."""
        return self.schemas[0] if self.schemas else ""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def cancelling(self) -> bool:
        """Whether somebody asked to cancel it and it has not ended yet."""
        return self.cancel_requested_at is not None and not self.ended

    @property
    def can_cancel(self) -> bool:
        """Whether there is something to ask for: not twice, and not once its worker has finished."""
        return not self.ended and not self.cancelling and self.state is not State.FINISHING

    @property
    def status(self) -> str:
        """The state as people see it: `cancelling` until the end, an offered run as queued."""
        if self.cancelling:
            return "cancelling"
        return State.QUEUED.value if self.state is State.OFFERED else self.state.value

    @property
    def duration_s(self) -> float | None:
        """From the worker's start to the end.

        None while either is unknown, and where the clock was set back so far that nobody knows.
        """
        if self.started_at is None or self.finished_at is None or self.finished_at < self.started_at:
            return None
        return self.finished_at - self.started_at

    def as_json(self) -> dict[str, Any]:
        """Everything as plain JSON values, with `status` and `duration_s`; what it holds is shared."""
        return {
            **{name: getattr(self, name) for name in _FIELDS},
            "state": self.state.value,
            "status": self.status,
            "duration_s": self.duration_s,
        }


_LISTS = frozenset({"schemas", "kinds", "warnings", "gpu_uuids"})
_OBJECTS = frozenset({"params", "metrics", "scores", "headline", "result", "writeback"})
_FLAGS = frozenset({"accept_licence", "beats_baseline"})
_FIELDS = tuple(each.name for each in fields(Run))
_KNOWN = frozenset(_FIELDS)

_OWN_METHODS = """
run_id project trainer schemas kinds params backend state attempt trigger created_at accept_licence
idempotency_key begun_at offered_at cancel_requested_at position last_seq made_by
"""

SETTABLE = frozenset(_FIELDS) - frozenset(_OWN_METHODS.split())
"""The fields that a transition or an update may set; all others change by their own methods."""

SELECT = """
SELECT r.*, CASE WHEN r.state = 'queued' THEN
    (SELECT count(*) FROM potato_ray_runs w WHERE w.state = 'queued' AND w.seq <= r.seq)
    ELSE 0 END AS position
FROM potato_ray_runs r"""


def from_row(row: sqlite3.Row) -> Run:
    """The run in a row of SELECT. A column that an older file lacks keeps its default."""
    # By position: looking a column up by its name takes SQLite a walk through all of them.
    given = {name: value for name, value in zip(row.keys(), row, strict=True) if name in _KNOWN}
    for name, decode in _DECODERS.items():
        if given.get(name) is not None:
            given[name] = decode(given[name])
    return Run(**given)


_DECODERS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_LISTS, lambda text: tuple(json.loads(text))),
    **dict.fromkeys(_OBJECTS, json.loads),
    **dict.fromkeys(_FLAGS, bool),
    "state": State,
}


def encode(name: str, value: Any) -> Any:
    """A field's value as its column holds it."""
    if value is None:
        return None
    if name in _LISTS or name in _OBJECTS:
        return to_json(value)
    if name in _FLAGS:
        return int(value)
    return clean(value)


def to_json(value: Any) -> str:
    """JSON in ASCII (lone surrogates pass), NaN and infinities as null, numpy scalars as numbers."""
    try:
        return _plain(value)
    except (TypeError, ValueError):
        return json.dumps(_finite(value), separators=(",", ":"), default=_scalar)


_plain = json.JSONEncoder(separators=(",", ":"), allow_nan=False).encode
"""For what is JSON as it stands, which nearly everything is; raises for all else."""


def clean(value: Any) -> Any:
    """A scalar that SQLite takes: no lone surrogates, no NaN or infinity (None)."""
    if isinstance(value, str):
        return str(value).encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_finite(each) for each in value]
    return value


def _scalar(value: Any) -> Any:
    try:
        return _finite(value.item())
    except AttributeError:
        return str(value)
