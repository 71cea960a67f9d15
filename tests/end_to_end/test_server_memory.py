"""What a server that nobody asks anything needs, with all that it has started."""

from __future__ import annotations

import contextlib
import os
import signal
import time

import pytest
from server_process import ServerProcess, memory_mb
from whole_runs import MakeProject

# Of pages that several processes have, each counts its share: another server's would take some off.
pytestmark = [pytest.mark.ray, pytest.mark.alone]

IDLE_S = 30.0 if os.environ.get("POTATO_RAY_LONG") else 8.0


@pytest.mark.parametrize(
    ("arguments", "limit_mb"), [((), 720.0), pytest.param(("--no-spare",), 520.0, marks=pytest.mark.long)]
)
def test_an_idle_server_stays_within_its_memory(
    make_project: MakeProject, arguments: tuple[str, ...], limit_mb: float
) -> None:
    config = make_project()
    with contextlib.closing(ServerProcess(config, *arguments, as_installed=True)) as server:
        server.wait_ready()
        time.sleep(IDLE_S)
        measured = memory_mb(server.processes())
        assert len(measured) >= 9
        assert any("--spare" in name for name in measured) == (not arguments)
        assert sum(measured.values()) <= limit_mb, measured
        assert server.end(signal.SIGTERM) == 0
