"""The agents of a project as API and pages tell them: who was heard of, and how to start one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from starlette.requests import Request

from potato_ray.backends.agent_check import folded, register_command
from potato_ray.backends.agents_seen import (
    ADDRESS,
    address_on,
    ago,
    doing,
    gpus,
    host,
    is_here,
    one_file_commands,
    start_command,
    state,
)
from potato_ray.config.backends import AgentBackend
from potato_ray.config.models import ProjectConfig
from potato_ray.loopback import is_this_machine
from potato_ray.registry.agents import AgentSeen
from potato_ray.registry.reading import RegistryReader
from potato_ray.server.wording import duration

SHOWN = 20
"""The most agents of a backend in a table, those seen last."""


@dataclass(frozen=True)
class AgentRow:
    """An agent in the table; `run_id` is "" while it waits."""

    host: str
    python: str
    gpus: str
    last_seen: float
    ago: str
    doing: str
    run_id: str
    present: bool


@dataclass(frozen=True)
class AgentPanel:
    """An agent backend: its agents, and what there is to do while none is there.

    `has_token` False: no agent gets in before one is issued by `register`. `start` and `one_file`, for
    a machine without an installation, are typed on the training machine. `gives_up` is how long a run
    waits at most, "" where for ever; `left_out` counts the agents that are not among `rows`.
    """

    name: str
    is_default: bool
    state: str
    n_present: int
    has_token: bool
    register: str
    start: str
    one_file: tuple[str, str]
    gives_up: str
    rows: tuple[AgentRow, ...]
    left_out: int


def agent_backends(
    config: ProjectConfig, reader: RegistryReader, now: float, server: str = ADDRESS
) -> tuple[AgentPanel, ...]:
    """Every agent backend of a project at `now` (epoch seconds UTC), in the order of the configuration."""
    return tuple(
        _view(config, name, settings, reader, now, server)
        for name, settings in config.model_training.backends.items()
        if isinstance(settings, AgentBackend)
    )


def agent_backend(
    config: ProjectConfig, reader: RegistryReader, name: str, now: float, server: str = ADDRESS
) -> AgentPanel | None:
    """One agent backend; None for one of another type, or that is not configured any more."""
    settings = config.model_training.backends.get(name)
    if not isinstance(settings, AgentBackend):
        return None
    return _view(config, name, settings, reader, now, server)


def waiting_words(n_agents: int | None, waited_s: float) -> str:
    """What stands beside a run that waits for an agent: how long, and whether one is polling."""
    if n_agents is None:
        return ""
    waited = f"for {duration(waited_s) if waited_s >= 60 else f'{max(0, int(waited_s))} s'}"
    return waited if n_agents else f"{waited}; no agent is polling. On the training machine:"


def _view(
    config: ProjectConfig, name: str, settings: AgentBackend, reader: RegistryReader, now: float, server: str
) -> AgentPanel:
    seen = reader.agents(name)
    told = [agent for agent, _ in folded(seen, now)]
    return AgentPanel(
        name=name,
        is_default=name == config.model_training.backend,
        state=state(seen, now),
        n_present=sum(is_here(agent, now) for agent in seen),
        has_token=reader.token_of(name) is not None,
        register=register_command(name),
        start=start_command(name, server),
        one_file=one_file_commands(name, server),
        gives_up=duration(settings.queue_timeout_s),
        rows=tuple(_row(agent, now) for agent in told[:SHOWN]),
        left_out=max(0, len(told) - SHOWN),
    )


def _row(agent: AgentSeen, now: float) -> AgentRow:
    here = is_here(agent, now)
    return AgentRow(
        host=host(agent),
        python=agent.python,
        gpus=gpus(agent),
        last_seen=agent.last_seen,
        ago=ago(now - agent.last_seen),
        doing=doing(agent, now),
        run_id=agent.run_id if here else "",
        present=here,
    )


def agent_bodies(reader: RegistryReader, name: str, now: float) -> list[dict[str, Any]]:
    """The agents of a backend as the API answers them, the last seen first."""
    return [
        {
            "agent_id": agent.agent_id,
            "host": agent.host,
            "python": agent.python,
            "version": agent.version,
            "gpus": list(_gpus(agent)),
            "first_seen": agent.first_seen,
            "last_seen": agent.last_seen,
            "present": is_here(agent, now),
            "run_id": agent.run_id or None,
        }
        for agent in reader.agents(name)
    ]


def _gpus(agent: AgentSeen) -> Iterator[Mapping[str, Any]]:
    for gpu in agent.gpus:
        yield {name: gpu.get(name) for name in ("uuid", "name", "total_mb", "free_mb")}


def address_for_agents(request: Request) -> str:
    """The address of this server in commands for other machines, by the one at which a page was asked for.

    One that leads to this machine alone is left for the reader to fill in, all but its port.
    """
    asked = request.url
    if asked.hostname and not is_this_machine(asked.hostname):
        return f"{asked.scheme}://{asked.netloc}"
    _, port = request.scope.get("server") or ("", None)
    return address_on(port) if port else ADDRESS
