"""What is known of agents, in words: who is there, what it has, and what it does.

An agent is known by what it said of itself when it asked for work. One that has not been heard of for
PRESENT_S is not counted on: it may have ended, or its machine may be off.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from potato_ray.registry.agents import AgentSeen

PRESENT_S = 120.0
"""More than two long polls, so that an agent that waits for work is never taken for gone."""
ADDRESS = "http://<this-server>:8000"
"""Stands for a server whose address nobody knows."""
FILL_IN = "Put the server's address in place of <this-server>."
"""Said where ADDRESS is: a shell takes it for a redirection."""
LONGEST = 100
"""The most characters that are shown of anything that an agent said."""


def address_on(port: int) -> str:
    """The same for a server of which the port is known."""
    return f"http://<this-server>:{port}"


def is_present(last_seen: float, now: float) -> bool:
    """Whether an agent was heard of lately. Times are epoch seconds UTC."""
    return now - last_seen < PRESENT_S


def is_here(agent: AgentSeen, now: float) -> bool:
    """Whether an agent is counted on: it was heard of lately, and has not left."""
    return not agent.has_left and is_present(agent.last_seen, now)


def present(agents: Iterable[AgentSeen], now: float) -> list[AgentSeen]:
    """Those that are counted on, in their order."""
    return [agent for agent in agents if is_here(agent, now)]


def start_command(name: str, server: str = ADDRESS) -> str:
    """What starts an agent on the training machine, where potato-ray is installed."""
    return f"potato-ray training agent --server {server} --backend {shlex.quote(name)}"


def one_file_commands(name: str, server: str = ADDRESS) -> tuple[str, str]:
    """Fetch the agent as one file, and start it; the token goes by standard input, where no `ps` sees it."""
    return (
        "printf 'Authorization: Bearer %s' \"$POTATO_TRAINING_TOKEN\""
        f" | curl --fail -H @- -o agent.pyz {server}/api/training/agent.pyz",
        f"python3 agent.pyz --server {server} --backend {shlex.quote(name)}",
    )


def ago(seconds: float) -> str:
    """How long ago something was: `just now`, `12 s ago`, `5 min ago`, `3 h ago`, `4 d ago`."""
    if seconds < 5:
        return "just now"
    if seconds < 120:
        return f"{seconds:.0f} s ago"
    for unit_s, unit in ((60, "min"), (3600, "h")):
        if seconds < unit_s * (120 if unit == "min" else 48):
            return f"{seconds / unit_s:.0f} {unit} ago"
    return f"{seconds / 86400:.0f} d ago"


def doing(agent: AgentSeen, now: float) -> str:
    """`waiting for a run`, `busy with run 2026…`, `has left`, or `not heard of any more`."""
    if agent.has_left:
        return "has left"
    if not is_here(agent, now):
        return "not heard of any more"
    return f"busy with run {agent.run_id}" if agent.run_id else "waiting for a run"


def gpus(agent: AgentSeen) -> str:
    """`NVIDIA A100 (39000 of 40960 MB free)`, several with commas; `no GPU`."""
    return ", ".join(_gpu(gpu) for gpu in agent.gpus) or "no GPU"


def _gpu(gpu: Mapping[str, Any]) -> str:
    """An agent says what it likes: what is no number is not shown as one."""
    name = plain(str(gpu.get("name") or "a GPU"))
    free, total = _mb(gpu.get("free_mb")), _mb(gpu.get("total_mb"))
    if free and total:
        return f"{name} ({free} of {total} MB free)"
    return f"{name} ({total} MB)" if total else name


def _mb(value: object) -> str:
    return f"{value:.0f}" if isinstance(value, (int, float)) else ""


def plain(text: str) -> str:
    """What an agent said, for a terminal: no control characters, and no novel."""
    return "".join(each if each.isprintable() else "?" for each in text)[:LONGEST]


def host(agent: AgentSeen) -> str:
    """Its machine's name."""
    return plain(agent.host) or "a machine without a name"


def line(agent: AgentSeen, now: float) -> str:
    """An agent in one line: `ws1, Python 3.8.18, no GPU, seen 12 s ago, waiting for a run`."""
    python = [f"Python {plain(agent.python)}"] if agent.python else []
    seen = f"seen {ago(now - agent.last_seen)}"
    return ", ".join([host(agent), *python, gpus(agent), seen, doing(agent, now)])


def state(agents: Sequence[AgentSeen], now: float) -> str:
    """How many agents are there, in one sentence: `2 agents are polling; 1 waits for a run.`"""
    here = present(agents, now)
    if not here:
        return "No agent is polling at present."
    free = sum(not agent.run_id for agent in here)
    counted = "1 agent is polling" if len(here) == 1 else f"{len(here)} agents are polling"
    waiting = f"{free} wait for a run" if free > 1 else "1 waits for a run" if free else "none is free"
    return f"{counted}; {waiting}."
