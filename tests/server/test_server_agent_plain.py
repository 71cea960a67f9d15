"""An agent of a few dozen lines, made from docs/agent-protocol.md alone, runs whole jobs."""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_jobs import handed_over
from agent_link import AGENT_BACKENDS, AgentLink
from job_making import N_ROWS, make_job
from serving import serving

from potato_ray.config import ProjectConfig
from potato_ray.job.follow import Follower
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

AGENT = Path(__file__).parents[1] / "testbeds" / "plain_agent.py"


class PlayingLink(AgentLink):
    """Offers jobs that really run, of a trainer that does what `play` says."""

    play = "succeed"

    def make_job(self, run: Run) -> dict[str, Any]:
        path = self.folder(run.run_id).path
        make_job(path, self.play, lost_after_s=60.0)
        self.move(run.run_id, State.RUNNING)
        return handed_over(path, self.config.state_dir, run.run_id, run.backend, run.attempt)


@pytest.fixture
def link(make_config: Callable[..., ProjectConfig]) -> Iterator[PlayingLink]:
    made = PlayingLink(make_config(backends=AGENT_BACKENDS, max_concurrent_runs=9))
    yield made
    made.close()


@pytest.fixture
def url(link) -> Iterator[str]:
    context = ServerContext(link.config, RegistryReader(link.config.registry_path), link, admin_key="k")
    with serving(create_app(context)) as address:
        yield address.removeprefix("http://")


def start_agent(url: str, token: str, workdir: Path) -> subprocess.Popen[str]:
    environment = {"PATH": os.environ["PATH"], "POTATO_TRAINING_TOKEN": token}
    command = [sys.executable, "-I", str(AGENT), url, str(workdir)]
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)


def test_it_is_short_and_imports_nothing_of_ours() -> None:
    source = AGENT.read_text("utf-8")
    code = [line for line in source.splitlines() if line.strip()]
    assert len(code) <= 70
    imported = {
        each.name
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Import)
        for each in node.names
    }
    assert {name.partition(".")[0] for name in imported} <= sys.stdlib_module_names


def test_a_plain_agent_runs_a_whole_job(link, url, tmp_path) -> None:
    agent = start_agent(url, link.token(), tmp_path / "work")
    run_id = link.offer()
    printed, _ = agent.communicate(timeout=90)
    assert printed == "200 0\n"
    mirror = link.folder(run_id)
    result, end = mirror.read_result(), mirror.read_exit()
    assert result is not None
    assert end is not None
    assert (result["exit"]["code"], end.code) == (0, 0)
    assert result["artifact_uri"] == f"plain:{tmp_path}/work/job/artifacts"
    lines = mirror.predictions.read_text().splitlines()
    assert len(lines) == sum(N_ROWS.values()) - N_ROWS["train"]
    said = Follower(mirror).poll(10_000)
    assert said[-1]["event"] == "result"
    assert said == [
        json.loads(each) for each in (tmp_path / "work/job/events.jsonl").read_text().splitlines()
    ]


def test_a_plain_agent_cancels_its_job_when_it_is_told_to(link, url, tmp_path) -> None:
    link.play = "wait"
    run_id = link.offer()
    agent = start_agent(url, link.token(), tmp_path / "work")
    mirror, deadline = link.folder(run_id), time.monotonic() + 60
    while not mirror.events.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    link.write(link.registry.request_cancel, run_id)
    printed, _ = agent.communicate(timeout=90)
    assert printed.startswith("200 ")
    result = mirror.read_result()
    assert result is not None
    assert result["exit"]["reason"] == "cancelled"
