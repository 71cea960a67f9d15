"""agent.pyz as the server gives it out runs a whole job against the server's routes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_jobs import handed_over
from agent_link import AGENT_BACKENDS, NAME, AgentLink
from job_making import N_ROWS, make_job
from serving import serving

from potato_ray.config import ProjectConfig
from potato_ray.job.follow import Follower
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext


class PlayingLink(AgentLink):
    def make_job(self, run: Run) -> dict[str, Any]:
        path = self.folder(run.run_id).path
        make_job(path, lost_after_s=60.0)
        self.move(run.run_id, State.RUNNING)
        return handed_over(path, self.config.state_dir, run.run_id, run.backend, run.attempt)


@pytest.fixture
def link(make_config: Callable[..., ProjectConfig]) -> Iterator[PlayingLink]:
    made = PlayingLink(make_config(backends=AGENT_BACKENDS, max_concurrent_runs=9))
    yield made
    made.close()


def fetched(url: str, token: str, folder: Path) -> Path:
    answer = httpx.get(
        f"{url}/api/training/agent.pyz", headers={"Authorization": f"Bearer {token}"}, trust_env=False
    )
    path = folder / "agent.pyz"
    path.write_bytes(answer.content)
    return path


def test_the_agent_that_the_server_gives_out_runs_a_whole_job(link, tmp_path) -> None:
    token, run_id = link.token(), link.offer()
    context = ServerContext(link.config, RegistryReader(link.config.registry_path), link, admin_key="k")
    with serving(create_app(context)) as url:
        agent = fetched(url, token, tmp_path)
        command = [sys.executable, "-I", str(agent), "--server", url, "--backend", NAME, "--once"]
        done = subprocess.run(
            [*command, "--workdir", str(tmp_path / "work")],
            env={"PATH": os.environ["PATH"], "HOME": str(tmp_path), "POTATO_TRAINING_TOKEN": token},
            capture_output=True,
            text=True,
            timeout=90,
        )
    assert done.returncode == 0, done.stderr
    mirror = link.folder(run_id)
    result = mirror.read_result()
    assert result is not None
    assert (result["failure"], result["exit"]["code"]) == (None, 0)
    assert len(mirror.predictions.read_text().splitlines()) == sum(N_ROWS.values()) - N_ROWS["train"]
    assert Follower(mirror).poll(10_000)[-1]["event"] == "result"
    assert token not in done.stdout + done.stderr
    written = [
        path.read_bytes()
        for path in (*mirror.path.rglob("*"), *(tmp_path / "work").rglob("*"))
        if path.is_file()
    ]
    assert not any(token.encode() in each for each in written)
