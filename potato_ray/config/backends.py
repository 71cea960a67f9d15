"""The backend types and the keys of each."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from potato_ray.config.blocks import Block
from potato_ray.config.values import (
    AboveZero,
    AtLeastZero,
    Command,
    Count,
    EnvName,
    EnvValue,
    Gpus,
    Host,
    Lines,
    MaybeEmpty,
    Memory,
    Port,
    Positive,
    SbatchFlags,
    SlurmTime,
    SlurmWord,
    Text,
    Texts,
    Word,
)

Environment = Annotated[dict[EnvName, EnvValue], MaybeEmpty]


class AnyBackend(Block):
    """What every backend has."""

    type: str
    description: str = ""
    heartbeat_timeout_s: AboveZero = 120.0


class Reached(AnyBackend):
    """What the server starts runs on by itself: everything but an agent that polls."""

    env: Environment = Field(default_factory=dict)
    num_threads: Positive | None = None
    min_free_gpu_mb: Count = 2000
    fetch_artifacts: bool = True
    max_artifact_mb: AtLeastZero = 2048.0


class ReachedBySsh(Reached):
    """A host that the server logs in to; user, port and identity_file are ssh's own where absent."""

    host: Host
    user: Host | None = None
    port: Port | None = None
    identity_file: Text | None = None
    python: Command = "python3"
    keep_remote: bool = False
    connect_timeout_s: AboveZero = 20.0


class SshBackend(ReachedBySsh):
    """A GPU machine over ssh. `gpus` is auto, none, or indices such as "0,1"."""

    type: Literal["ssh"]
    remote_dir: Command = "~/.cache/potato-training"
    gpus: Gpus = "auto"
    packages: Texts = ()


class SlurmBackend(ReachedBySsh):
    """A login node in front of SLURM; `remote_dir` lies on storage that the compute nodes share."""

    type: Literal["slurm"]
    remote_dir: Command
    job_python: Command | None = None
    partition: SlurmWord | None = None
    account: SlurmWord | None = None
    qos: SlurmWord | None = None
    gres: SlurmWord | None = None
    time: SlurmTime | None = None
    mem: Memory | None = None
    cpus_per_task: Positive | None = None
    constraint: SlurmWord | None = None
    nodelist: SlurmWord | None = None
    exclude: SlurmWord | None = None
    reservation: SlurmWord | None = None
    sbatch_args: SbatchFlags = ()
    prelude: Lines = ()
    poll_interval_s: AboveZero = 10.0


class AgentBackend(AnyBackend):
    """A machine that the server cannot reach: an agent there asks for work."""

    type: Literal["agent"]
    queue_timeout_s: AboveZero | None = None


class RayBackend(Reached):
    """Another node of the Ray cluster that the server is attached to; `node` None: any of them."""

    type: Literal["ray"]
    gpus: Gpus = "auto"
    node: Word | None = None


Backend = Annotated[SshBackend | SlurmBackend | AgentBackend | RayBackend, Field(discriminator="type")]

BACKEND_TYPES: dict[str, type[Block]] = {
    "ssh": SshBackend,
    "slurm": SlurmBackend,
    "agent": AgentBackend,
    "ray": RayBackend,
}
