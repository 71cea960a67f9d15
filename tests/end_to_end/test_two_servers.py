"""Two servers on one project: one has it, whatever becomes of the lock file."""

from __future__ import annotations

import contextlib
import shutil
import time
from functools import partial

import pytest
from server_process import DEADLINE_S, ServerProcess
from whole_runs import MakeProject, ended

from potato_ray.registry.states import State

pytestmark = pytest.mark.ray


def first_to_end(servers: list[ServerProcess]) -> ServerProcess:
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for server in servers:
            if server.process.poll() is not None:
                return server
        time.sleep(0.02)
    raise AssertionError("both go on")


def test_of_servers_started_at_the_same_moment_exactly_one_gets_the_project(
    make_project: MakeProject,
) -> None:
    config = make_project()
    with contextlib.ExitStack() as left:
        start = partial(ServerProcess, config, "--no-spare")
        servers = [left.enter_context(contextlib.closing(start())) for _ in range(3)]
        refused = [first_to_end(servers)]
        refused.append(first_to_end([each for each in servers if each not in refused]))
        [winner] = [each for each in servers if each not in refused]
        winner.wait_ready()
        for server in refused:
            assert server.end() == 1
            assert server.said.startswith("Error (project_in_use): The project is in use by")
            assert "Traceback" not in server.said
        assert ended(config, winner.start_run("succeed")).state == State.SUCCESS
        shutil.rmtree(config.state_dir)
        late = left.enter_context(contextlib.closing(start()))
        assert late.end() == 1
        assert late.said.startswith("Error (project_in_use):")
        assert ended(config, winner.start_run("succeed")).state == State.SUCCESS
