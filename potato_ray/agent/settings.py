"""How one agent was told to work, and how long it waits for what."""

from __future__ import annotations

import socket
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.agent.protocol import MAX_WAIT_S

if TYPE_CHECKING:
    from potato_ray.agent.slurm.keys import SlurmKeys

DEFAULT_WORKDIR = "~/.cache/potato-training"


@dataclass(frozen=True)
class Timing:
    """All waits of an agent, in seconds; tests shorten them."""

    long_poll_s: float = MAX_WAIT_S
    least_poll_s: float = 1.0
    """The least time between two claims, should the server not hold its answers back."""
    first_retry_s: float = 0.5
    longest_retry_s: float = 15.0
    refused_retry_s: float = 60.0
    """After a 401: a person has to act first."""
    look_every_s: float = 0.05
    """At the job folder, and at whether the agent is to stop."""
    idle_look_s: float = 0.25
    """At whether the agent is to stop, while it waits for a job."""
    tell_every_s: float = 0.2
    """The least time between two progress requests."""
    silent_at_most_s: float = 5.0
    """The longest time between two progress requests, whatever the job says."""
    lease_every_s: float = 1.0
    settle_s: float = 0.5
    """How long exit.json may be late when the launcher is seen gone."""
    launch_s: float = 40.0
    """For the start of a launcher; it gives up by itself after 20 s."""
    after_grace_s: float = 15.0
    """From the end of the grace on, until a launcher that does not end is killed."""
    deliver_success_s: float = 86_400.0
    """How long the end of a job that succeeded is offered to a server that is away; others: lost_after_s."""
    last_try_s: float = 15.0
    """For the end of a job, after a second request to stop."""
    tries_in_vain: int = 5
    """How often a server that is there may refuse the end of a job before lost_after_s counts against it."""


@dataclass(frozen=True)
class Settings:
    """One agent: `python` runs its workers, `once`: it ends after one job, `keep`: bundles and logs stay.

    `min_free_gpu_mb`: what the card that the server has chosen for a job must still have free just before
    its worker starts; None: it is not looked at. `slurm`: workers run as SLURM jobs, submitted from here;
    `shared_dir` is then for what the agents of one backend share, None: the workdir.
    """

    server: str
    backend: str
    workdir: Path
    python: str
    once: bool = False
    keep: bool = False
    timing: Timing = field(default_factory=Timing)
    host: str = field(default_factory=socket.gethostname)
    min_free_gpu_mb: float | None = None
    slurm: SlurmKeys | None = None
    shared_dir: Path | None = None
