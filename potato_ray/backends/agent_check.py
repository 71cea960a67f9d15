"""The report of `training check NAME` for an agent backend: its token, and the agents that were seen."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from potato_ray.backends.agents_seen import (
    ago,
    doing,
    gpus,
    host,
    is_here,
    line,
    plain,
    present,
    start_command,
)
from potato_ray.backends.base import Check, CheckReport
from potato_ray.registry.agents import AgentSeen, TokenRecord
from potato_ray.trainers import registry
from potato_ray.trainers.installing import into_python, lacking

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
        return [_note("agents", "none was ever seen")]
    told = folded(agents, now)
    lines: list[Check] = []
    for agent, n_before in told[:SHOWN]:
        lines.append(_agent_check(agent, n_before, now))
        if is_here(agent, now):
            lines += _trainer_notes(agent)
    left = len(told) - SHOWN
    return [*lines, _note("agents", f"and {left} seen before")] if left > 0 else lines


def folded(agents: Sequence[AgentSeen], now: float) -> list[tuple[AgentSeen, int]]:
    """Each agent that is there and, of each workdir on a host, the last that was; with how many came before.

    `agents` come with the last seen first, and so does the answer.
    """
    by_place: dict[tuple[str, str], list[AgentSeen]] = {}
    for agent in agents:
        by_place.setdefault((agent.host, agent.workdir or agent.agent_id), []).append(agent)
    told: list[tuple[AgentSeen, int]] = []
    for starts in by_place.values():
        here = [agent for agent in starts if is_here(agent, now)] or starts[:1]
        told += [(agent, 0) for agent in here[:-1]] + [(here[-1], len(starts) - len(here))]
    return sorted(told, key=lambda each: -each[0].last_seen)


def _agent_check(agent: AgentSeen, n_before: int, now: float) -> Check:
    before = f", started {n_before + 1} times in that workdir" if n_before else ""
    message = f"{line(agent, now)}{before}"
    return Check("agent", ok=True, message=message) if is_here(agent, now) else _note("agent", message)


def _trainer_notes(agent: AgentSeen) -> list[Check]:
    """What each trainer lacks there, as far as the agent has looked: it knows nothing of somebody else's."""
    notes, python = [], plain(agent.executable)
    for trainer in registry.all_trainers():
        absent = [need.package for need in trainer.requires if need.module in agent.lacks]
        if absent:
            message = f"{trainer.name}: {lacking(absent, python or 'its Python', host(agent))}"
            step = f"Run on {host(agent)}: {into_python(python, trainer.install_hint)}"
            notes.append(Check("trainer", ok=True, message=message, next_step=step, is_note=True))
    return notes


def _note(name: str, message: str) -> Check:
    return Check(name, ok=True, message=message, is_note=True)


def _facts(agent: AgentSeen, now: float) -> dict[str, Any]:
    return {
        "agent_id": agent.agent_id,
        "host": agent.host,
        "python": agent.python,
        "executable": agent.executable,
        "lacks": list(agent.lacks),
        "version": agent.version,
        "gpus": [dict(gpu) for gpu in agent.gpus],
        "gpus_text": gpus(agent),
        "workdir": agent.workdir,
        "first_seen": agent.first_seen,
        "last_seen": agent.last_seen,
        "run_id": agent.run_id,
        "doing": doing(agent, now),
    }
