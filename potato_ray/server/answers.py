"""The bodies of requests and answers, as the OpenAPI document describes them.

Answers are written as plain JSON from what registry and configuration hold; these models describe them
and are held to them by tests. Times are epoch seconds UTC.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from potato_ray.server import examples
from potato_ray.server.examples import RUN_ID, one


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
        json_schema_extra=one(
            {"trainer": "sklearn-text", "schemas": ["sentiment"], "params": {"min_instances": 20}}
        ),
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
        json_schema_extra=one({"started": True, "run_id": RUN_ID, "queued": True, "position": 2})
    )

    started: Literal[True]
    run_id: str
    queued: bool
    position: int = Field(ge=0)


class RefusedStart(BaseModel):
    """A start that is refused at once. `needs_licence_ack`: it may be repeated with accept_licence."""

    model_config = ConfigDict(
        json_schema_extra=one(
            {
                "status": 409,
                "started": False,
                "error": "A training run is already in progress.",
                "error_code": "busy",
                "evidence": "",
                "next_step": "Wait for its end, cancel it, or start with queue: true.",
            }
        )
    )

    status: int
    started: Literal[False]
    error: str
    error_code: str
    evidence: str
    next_step: str
    needs_licence_ack: bool = False


class Cancelled(BaseModel):
    """`cancelled` is true when the run has ended by this request, false while its worker is being stopped."""

    model_config = ConfigDict(
        json_schema_extra=one({"run_id": RUN_ID, "state": "running", "cancelled": False})
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
    offered_at: float | None
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
    artifact_uri: str
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

    model_config = ConfigDict(json_schema_extra=one(examples.RUN))

    scores: dict[str, Any]
    result: dict[str, Any] | None
    previous: Previous | None
    review: dict[str, Any] | None


class RunList(BaseModel):
    """Runs, newest first; those that Potato itself made are among them."""

    model_config = ConfigDict(json_schema_extra=one(examples.RUNS))

    runs: list[RunSummary]


class RunEvent(BaseModel):
    """One event: what the worker or the server said, with the members of its kind.

    `id` counts from 1 within the run, `t` is epoch seconds UTC; `line` is what the log has of it, or "".
    """

    model_config = ConfigDict(extra="allow", json_schema_extra=one(examples.EVENT))

    id: int
    attempt: int
    source: Literal["worker", "server"]
    t: float
    event: str
    line: str


class EventPage(BaseModel):
    """Events in their order; send `next` as `after` for those that come behind."""

    model_config = ConfigDict(json_schema_extra=one({"events": [examples.EVENT], "next": 7}))

    events: list[RunEvent]
    next: int


class Withdrawn(BaseModel):
    """`withdrawn` counts the pre-labels taken off items; all predictions of the run are forgotten."""

    model_config = ConfigDict(json_schema_extra=one({"run_id": RUN_ID, "withdrawn": 180}))

    run_id: str
    withdrawn: int = Field(ge=0)


class Artifact(BaseModel):
    """One file; `modified` is epoch seconds UTC."""

    path: str
    bytes: int = Field(ge=0)
    modified: float


class ArtifactList(BaseModel):
    """The files of a run, by path."""

    model_config = ConfigDict(json_schema_extra=one(examples.ARTIFACTS))

    run_id: str
    artifacts: list[Artifact]


class RemoteProblem(BaseModel):
    """Why a file could not be fetched."""

    error: str
    error_code: str
    evidence: str
    next_step: str


class RemoteFile(BaseModel):
    """A file of a run on its host; `here_bytes` of its `bytes` have come. `problem`: why it has failed."""

    model_config = ConfigDict(json_schema_extra=one(examples.REMOTE_FILE))

    path: str
    bytes: int = Field(ge=0)
    state: Literal["there", "waiting", "fetching", "here", "failed"]
    here_bytes: int = Field(ge=0)
    problem: RemoteProblem | None


class RemoteFileList(BaseModel):
    """What of a run stays on its host, by path; `folder` is the artifacts folder there."""

    model_config = ConfigDict(json_schema_extra=one(examples.REMOTE_FILES))

    run_id: str
    host: str
    folder: str
    files: list[RemoteFile]


class RemoteFilesRemoved(BaseModel):
    """The folder `removed` of a run is gone from the host."""

    model_config = ConfigDict(json_schema_extra=one(examples.REMOTE_FILES_REMOVED))

    run_id: str
    host: str
    removed: str


class ParamBody(BaseModel):
    """One parameter of a trainer, or a member of a mapping; without `members` a mapping holds anything."""

    name: str
    type: Literal[
        "int",
        "float",
        "bool",
        "str",
        "choice",
        "names",
        "mapping",
        "bool_or_mapping",
        "dotted_path",
    ]
    default: Any
    help: str
    minimum: float | None
    maximum: float | None
    choices: list[str]
    optional: bool
    advanced: bool
    packages: list[str]
    members: list[ParamBody]


class TrainerParam(ParamBody):
    """One parameter of a trainer, for forms; `configured` is what trainer_params says, else the default."""

    configured: Any


class TrainerLicence(BaseModel):
    """The licence of what a trainer runs; `needs_confirmation`: a start needs accept_licence."""

    spdx: str
    url: str
    needs_confirmation: bool
    commercial_use: bool


class TrainerRequirement(BaseModel):
    """A package that a trainer needs."""

    module: str
    package: str


class TrainerBody(BaseModel):
    """A trainer. `available`: its packages are installed here; else `reason` says what is missing.

    `params_schema` is a JSON Schema of its parameters, `params` the same as a list for forms,
    `configured` what trainer_params says of them.
    """

    name: str
    description: str
    kinds: list[str]
    annotation_types: list[str] | None
    modalities: list[str]
    params: list[TrainerParam]
    params_schema: dict[str, Any]
    defaults: dict[str, Any]
    configured: dict[str, Any]
    licence: TrainerLicence
    requires: list[TrainerRequirement]
    available: bool
    reason: str
    install_hint: str
    uses_gpu: bool
    local_only: bool
    selects_on_val: bool


class BrokenTrainerBody(BaseModel):
    """A trainer of another package that cannot be used."""

    name: str
    reason: str


class TrainerList(BaseModel):
    """The trainers by name, and those that other packages announce but that cannot be used."""

    model_config = ConfigDict(json_schema_extra=one(examples.TRAINERS))

    trainers: list[TrainerBody]
    broken: list[BrokenTrainerBody]


class SchemaBody(BaseModel):
    """An annotation scheme; without trainers, `why_not` says why nobody can learn it."""

    name: str
    annotation_type: str
    description: str
    kind: str | None
    labels: list[str]
    trainers: list[str]
    why_not: str


class SchemaList(BaseModel):
    """The annotation schemes in the order of the configuration."""

    model_config = ConfigDict(json_schema_extra=one(examples.SCHEMAS))

    schemas: list[SchemaBody]


class AgentGpu(BaseModel):
    """A GPU as an agent told of it, in MiB; it may tell less."""

    uuid: Any
    name: Any
    total_mb: Any
    free_mb: Any


class AgentBody(BaseModel):
    """An agent, one process on a training machine. `present`: it was heard of in the last two minutes."""

    agent_id: str
    host: str
    python: str
    version: str
    gpus: list[AgentGpu]
    first_seen: float
    last_seen: float
    present: bool
    run_id: str | None = Field(description="The run that it has, or had last, in hand")


class BackendBody(BaseModel):
    """A place where runs execute. `text` is its line in a menu; `runnable` false: `why_not` says why."""

    name: str
    type: Literal["local", "ssh", "slurm", "agent", "ray"]
    host: str | None
    description: str
    text: str
    default: bool
    runnable: bool
    why_not: str
    token: Literal["issued", "none"] | None = Field(
        description="Whether agents have a token to get in with; null where there are no agents"
    )
    agents: list[AgentBody] = Field(description="Of an agent backend, the last seen first")


class BackendList(BaseModel):
    """The backends, `local` first."""

    model_config = ConfigDict(json_schema_extra=one(examples.BACKENDS))

    backends: list[BackendBody]


class CheckLine(BaseModel):
    """One line of a check report; `ok` false means that a run could not start."""

    name: str
    ok: bool
    message: str
    next_step: str
    is_note: bool = Field(description="It tells something on which no start depends")


class CheckBody(BaseModel):
    """What a backend's check found; `ok`: a run could start. `facts` are the figures behind it."""

    model_config = ConfigDict(json_schema_extra=one(examples.CHECK))

    backend: str
    type: str
    summary: str
    ok: bool
    checks: list[CheckLine]
    facts: dict[str, Any]
