"""The report of `training check NAME` for an agent backend: its token, and the agents that were seen."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from potato_ray.backends.agents_seen import ago, doing, gpus, line, present, start_command
from potato_ray.backends.base import Check, CheckReport
from potato_ray.registry.agents import AgentSeen, TokenRecord

SHOWN = 10
"""The most agents in a report; those seen last."""
NO_TOKEN = "no token issued yet"  # noqa: S105 - a sentence
NOBODY = "No agent is polling at present, so a run would wait for one."


def report(
    name: str, description: str, token: TokenRecord | None, agents: Sequence[AgentSeen], now: float
) -> CheckReport:
    """A run could start when there is a token; without an agent it would wait, which is a warning.

    `agents` come with the last seen first; `now` is epoch seconds UTC. `facts["warnings"]` are whole
    sentences with what to do.
    """
    here = present(agents, now)
    warnings = [] if here or token is None else [f"{NOBODY} {_start(name)}"]
    return CheckReport(
        backend=name,
        type="agent",
        summary=description,
        checks=(_token_check(name, token, now), *_agent_checks(agents, now)),
        facts={
            "probed_at": now,
            "token": None
            if token is None
            else {"created_at": token.created_at, "last_seen": token.last_seen},
            "n_present": len(here),
            "agents": [_facts(agent, now) for agent in agents],
            "warnings": warnings,
        },
    )


def register_command(name: str) -> str:
    """What issues a token, in the project's folder on the server's machine."""
    return f"potato-ray training register {shlex.quote(name)} config.yaml"


def _start(name: str) -> str:
    return f"Start one on the training machine: {start_command(name)}"


def _token_check(name: str, token: TokenRecord | None, now: float) -> Check:
    if token is None:
        step = f"Issue one on the server's machine: {register_command(name)}"
        return Check("token", ok=False, message=NO_TOKEN, next_step=step)
    seen = "never" if token.last_seen is None else f"{_time(token.last_seen)} ({ago(now - token.last_seen)})"
    return Check("token", ok=True, message=f"issued {_time(token.created_at)}, last seen {seen}")


def _time(epoch_s: float) -> str:
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def _agent_checks(agents: Sequence[AgentSeen], now: float) -> list[Check]:
    if not agents:
        return [Check("agents", ok=True, message="none was ever seen")]
    lines = [Check("agent", ok=True, message=line(agent, now)) for agent in agents[:SHOWN]]
    left = len(agents) - SHOWN
    return [*lines, Check("agents", ok=True, message=f"and {left} seen before")] if left > 0 else lines


def _facts(agent: AgentSeen, now: float) -> dict[str, Any]:
    return {
        "agent_id": agent.agent_id,
        "host": agent.host,
        "python": agent.python,
        "version": agent.version,
        "gpus": [dict(gpu) for gpu in agent.gpus],
        "gpus_text": gpus(agent),
        "workdir": agent.workdir,
        "first_seen": agent.first_seen,
        "last_seen": agent.last_seen,
        "run_id": agent.run_id,
        "doing": doing(agent, now),
    }
