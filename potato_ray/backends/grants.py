"""What lets an agent that the server starts itself in: a token for one run, and the lease of its attempt."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from potato_ray.errors import RunFailed

if TYPE_CHECKING:
    from potato_ray.config.models import ProjectConfig
    from potato_ray.ssh import Connection, Destination

Login: TypeAlias = "Callable[[Destination, Callable[[], bool]], Connection]"
"""Logs in to a destination, until the second says to stop."""

STARTED_BY_US = frozenset({"ssh", "slurm"})
"""The types of backends whose agents the server starts, one for each run."""

CARDS_NOT_OURS = frozenset({"agent", "slurm"})
"""The types of backends where somebody else gives a run its GPUs: the agent of a machine, or SLURM."""

LOGINS_SHARED = frozenset({"slurm"})
"""The types of backends whose runs share one login: a login node takes many for an attack."""


@dataclass(frozen=True)
class Grant:
    """Given to one agent of one attempt; it ends with the run. Neither is ever written to a log."""

    token: str = field(repr=False)
    lease: str = field(repr=False)


@dataclass(frozen=True)
class Means:
    """What a backend needs to start agents. `grant` makes a new token for a run id and an attempt.

    `agent_socket` is where the server answers agents, `state_dir` where code for hosts is kept ready.
    `no_socket` says why nobody answers there, "" where somebody does. `login` gets a run its connection to a
    host, as Connection.open does, which is what None stands for: a login of the run's own.
    """

    grant: Callable[[str, int], Grant]
    agent_socket: Path
    state_dir: Path
    no_socket: str = ""
    login: Login | None = None

    def require_socket(self) -> None:
        """Raises RunFailed (cannot_listen) where an agent could not report."""
        if self.no_socket:
            raise RunFailed(
                "The server has no socket for agents, so a machine that is reached by ssh cannot report.",
                code="cannot_listen",
                evidence=self.no_socket,
                next_step="Look whether there is space in the folder for temporary files, then start the "
                "server anew.",
            )


def starts_agents(config: ProjectConfig, backend: str) -> bool:
    """Whether the server itself starts the agent of a run on this backend."""
    settings = config.model_training.backends.get(backend)
    return settings is not None and settings.type in STARTED_BY_US


def gives_cards(config: ProjectConfig, backend: str) -> bool:
    """Whether the server itself chooses the GPUs of a run on this backend, and reserves them."""
    settings = config.model_training.backends.get(backend)
    return settings is None or settings.type not in CARDS_NOT_OURS


def shares_login(config: ProjectConfig, backend: str) -> bool:
    """Whether the runs of this backend go through one login to its host."""
    settings = config.model_training.backends.get(backend)
    return settings is not None and settings.type in LOGINS_SHARED
