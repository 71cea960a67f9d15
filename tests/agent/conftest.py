from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_at_work import AgentAtWork
from protocol_server import ProtocolServer


@pytest.fixture
def server() -> Iterator[ProtocolServer]:
    """The server's side of the protocol, at work."""
    with ProtocolServer() as running:
        yield running


@pytest.fixture
def work(server: ProtocolServer, tmp_path: Path) -> Iterator[Callable[..., AgentAtWork]]:
    """Starts an agent in a thread; at the end of the test nothing of it is left."""
    started: list[AgentAtWork] = []

    def start(**settings: Any) -> AgentAtWork:
        started.append(AgentAtWork(server, tmp_path / "work", **settings))
        return started[-1]

    yield start
    for agent in started:
        agent.close()
