"""What a server tells, as frozen dataclasses.

A newer server may say more: what is not known here is kept in `more`. Times are epoch seconds UTC.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, TypeVar

from potato_ray.client.failures import ProtocolError

T = TypeVar("T", bound="Record")

ENDED = frozenset({"success", "error", "cancelled", "interrupted"})


@dataclass(frozen=True)
class Record:
    """Base of all records. Each has `more`, the fields that this version does not know."""

    @classmethod
    def from_json(cls: type[T], body: object) -> T:
        """Read a JSON object. Raises ProtocolError when it is none, or lacks what identifies it."""
        if not isinstance(body, Mapping):
            raise _no_record(cls, f"It is {type(body).__name__}, not an object.")
        known = {each.name for each in fields(cls)} - {"more"}
        values: dict[str, Any] = {name: _frozen(value) for name, value in body.items() if name in known}
        values["more"] = {name: value for name, value in body.items() if name not in known}
        try:
            return cls(**values)
        except TypeError:
            raise _no_record(cls, f"It has only {', '.join(map(str, body)) or 'nothing'}.") from None


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _no_record(cls: type[Record], evidence: str) -> ProtocolError:
    return ProtocolError(
        f"The server's answer holds no {cls.__name__}.",
        evidence=evidence,
        next_step="Check the address, and that client and server are of like versions.",
    )


@dataclass(frozen=True)
class Headline(Record):
    """The held-out score of a run: a metric on one split, with a 95 % interval where there is one.

    Without one, `low` and `high` are None and `interval_note` says why.
    `baseline` is what one constant answer would get (the most frequent label, for numbers the median),
    `previous` the score of the run before on the same scheme; `comparable` False: items have changed sides
    since, so the two do not compare.
    """

    split: str
    metric: str
    value: float
    low: float | None = None
    high: float | None = None
    interval_note: str = ""
    n_items: int = 0
    baseline: float | None = None
    previous: float | None = None
    comparable: bool = True
    lower_is_better: bool = False
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class RunRecord(Record):
    """A run as it was when the server said it.

    `status` is one of queued, building, running, evaluating, finishing, cancelling, success, error,
    cancelled, interrupted; `state` says where it is while it is cancelling. `position` is its place
    among the waiting runs, from 1, else 0. `scores` is only in the answer for a single run.
    docs/registry.md tells of the other fields.
    """

    run_id: str
    status: str = "queued"
    state: str = ""
    trainer: str = ""
    schemas: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    params: Mapping[str, Any] = field(default_factory=dict)
    backend: str = ""
    created_at: float | None = None
    begun_at: float | None = None
    started_at: float | None = None
    finished_at: float | None = None
    duration_s: float | None = None
    position: int = 0
    step: str = ""
    phase: str = ""
    current: float = 0.0
    total: float = 0.0
    eta_s: float | None = None
    metrics: Mapping[str, Any] = field(default_factory=dict)
    scores: Mapping[str, Any] = field(default_factory=dict)
    headline: Mapping[str, Any] | None = None
    warnings: tuple[str, ...] = ()
    error: str = ""
    error_code: str = ""
    error_evidence: str = ""
    error_next_step: str = ""
    n_train: int | None = None
    n_val: int | None = None
    n_test: int | None = None
    n_unlabeled: int | None = None
    artifact_dir: str = ""
    artifact_uri: str = ""
    host: str = ""
    device: str = ""
    writeback: Mapping[str, Any] | None = None
    made_by: str = "potato_ray"
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def ended(self) -> bool:
        return self.status in ENDED

    @property
    def step_line(self) -> str:
        """What the run is doing now, in one line."""
        if self.position:
            return f"waiting #{self.position}" + (f": {self.step}" if self.step else "")
        if self.state == "offered" and self.status == "queued":
            return self.step or "waiting for an agent"
        doing = self.step and not self.ended and self.status != "cancelling"
        return f"{self.status}: {self.step}" if doing else self.status


@dataclass(frozen=True)
class Event(Record):
    """Something that a run said: docs/job-folder.md lists the names and their fields, which are in `more`.

    `id` counts from 1 within the run; `source` is worker or server.
    """

    id: int
    event: str
    t: float = 0.0
    attempt: int = 0
    source: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Any:
        return self.more[name]


@dataclass(frozen=True)
class Prediction(Record):
    """A prediction of a run; docs/trainers.md tells what `payload` holds for each kind of scheme."""

    instance_id: str
    schema_name: str
    payload: Mapping[str, Any]
    confidence: float | None = None
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class Artifact(Record):
    """A file that a run left; `path` is relative to its artifacts folder."""

    path: str
    bytes: int | None = None
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class RemoteFile(Record):
    """A file of a run that stays on its host; `path` is relative to the run's artifacts folder.

    `state` is there, waiting, fetching, here or failed; `here_bytes` of its `bytes` have come. `problem` has
    error, error_code, evidence and next_step where a fetch failed.
    """

    path: str
    bytes: int = 0
    state: str = "there"
    here_bytes: int = 0
    problem: Mapping[str, Any] | None = None
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)

    @property
    def is_here(self) -> bool:
        """Whether it is among the run's artifacts."""
        return self.state == "here"

    @property
    def is_under_way(self) -> bool:
        """Whether it is being fetched, or waits for it."""
        return self.state in ("waiting", "fetching")


@dataclass(frozen=True)
class TrainerInfo(Record):
    """A trainer that the server has; without its packages it is not `available`, for this `reason`.

    `params` are objects with name, type, default, help and limits; `licence` has spdx, url and
    needs_confirmation.
    """

    name: str
    description: str = ""
    kinds: tuple[str, ...] = ()
    params: tuple[Mapping[str, Any], ...] = ()
    licence: Mapping[str, Any] = field(default_factory=dict)
    available: bool = True
    reason: str = ""
    install_hint: str = ""
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class SchemaInfo(Record):
    """An annotation scheme of the project; without `trainers`, `why_not` says why none can learn it."""

    name: str
    annotation_type: str = ""
    kind: str | None = None
    labels: tuple[str, ...] = ()
    trainers: tuple[str, ...] = ()
    why_not: str = ""
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class BackendInfo(Record):
    """A place where runs can execute; one that is not `runnable` says `why_not`.

    Of an agent backend `token` is issued or none, and `agents` are objects with host, python, gpus,
    last_seen, present and run_id, the last seen first.
    """

    name: str
    type: str = ""
    host: str | None = None
    description: str = ""
    default: bool = False
    runnable: bool = True
    why_not: str = ""
    token: str | None = None
    agents: tuple[Mapping[str, Any], ...] = ()
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class CheckReport(Record):
    """Whether a run could start on a backend: `checks` are objects with name, ok, message, next_step."""

    backend: str
    ok: bool
    summary: str = ""
    type: str = ""
    checks: tuple[Mapping[str, Any], ...] = ()
    facts: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class AgentToken(Record):
    """A new token for the agents of a backend; it is told this once. Nothing that prints one shows it."""

    backend: str
    token: str = field(repr=False)
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True)
class StartAnswer(Record):
    """A start that was taken."""

    run_id: str
    queued: bool = False
    position: int = 0
    more: Mapping[str, Any] = field(default_factory=dict, repr=False)
