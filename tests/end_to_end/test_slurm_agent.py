"""An agent that somebody starts by hand on a login node of a real SLURM, with --slurm-config."""

from __future__ import annotations

import json
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_at_work import offer
from agent_process import AgentProcess
from parts import need_python38
from protocol_server import ProtocolServer
from slurm_cluster import SlurmCluster
from slurm_job import SlurmJob

import potato_ray
from potato_ray.agent.slurm.submission import Submission
from potato_ray.job.folder import JobFolder

ROOT = Path(potato_ray.__file__).parents[1]
SOON_S = 20.0
# After the real one has taken the job: the agent never hears of it.
KILLS_ITS_AGENT = '#!/bin/sh\n{sbatch} "$@"\n[ ! -e {mark} ] || {{ rm {mark}; kill -9 "$PPID"; }}\n'


class Person:
    """Who has a server, a login node, and a folder on storage that the compute nodes share."""

    def __init__(self, cluster: SlurmCluster, server: ProtocolServer, folder: Path) -> None:
        self.cluster = cluster
        self.server = server
        self.folder = folder
        self.workdir = folder / "work"
        self.agents: list[AgentProcess] = []
        self.told = offer(server, folder, "wait", gpu_uuids=None)

    def agent(self, python: str = sys.executable, path: str = "", **keys: Any) -> AgentProcess:
        config = self.folder / "slurm.json"
        env = {"PATH": f"{path}:/usr/local/bin:/usr/bin:/bin", **self.cluster.env}
        usual = {"mem": "300M", "job_python": sys.executable, "poll_interval_s": 1, "env": env}
        config.write_text(json.dumps({**usual, **keys}))
        options = ("--once", "--slurm-config", str(config))
        self.agents.append(
            AgentProcess(
                self.server.url,
                self.server.token,
                self.workdir,
                *options,
                backend="far",
                program=(python, "-m", "potato_ray.agent"),
            )
        )
        return self.agents[-1]

    def is_trained(self) -> None:
        """Wait until the worker is at work, and the server knows."""
        self.server.wait_for(lambda: len(self.told.events) >= 5, SOON_S)

    def said(self) -> list[str]:
        """The lines of the run's log that come from the agent."""
        return [note["message"] for note in self.told.notes if note["kind"] == "log"]

    def go(self) -> None:
        (self.job.path / "go").touch()

    @property
    def job(self) -> JobFolder:
        return JobFolder(self.workdir / "jobs" / "run-1.1")

    def slurm_job(self) -> SlurmJob:
        submission = Submission.read(self.job.path)
        assert submission is not None
        return self.cluster.job(submission.job_id, self.job.path)

    def jobs(self) -> list[str]:
        """The ids of all jobs that wait, run, or have not ended altogether."""
        return self.cluster.ask("squeue", "--noheader", "--format=%A").split()

    def succeeds(self, agent: AgentProcess) -> None:
        assert agent.process.wait(SOON_S) == 0, agent.said
        assert self.told.result is not None
        assert (self.told.result["failure"], self.told.result["exit"]["code"]) == (None, 0), agent.said
        assert self.told.predictions is not None

    def dismiss(self) -> None:
        for agent in self.agents:
            agent.close()


@pytest.fixture
def person(slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Person]:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    # Not below /tmp, which may be each node's own.
    with (
        tempfile.TemporaryDirectory(prefix=".prt-", dir=Path.home()) as folder,
        ProtocolServer() as server,
    ):
        made = Person(slurm, server, Path(folder))
        yield made
        made.dismiss()
        slurm.clear()


@pytest.mark.parametrize("version", ["3.8", "3.11"])
def test_a_job_comes_home(person: Person, version: str) -> None:
    agent = person.agent(sys.executable if version == "3.11" else need_python38())
    person.is_trained()
    assert person.told.alive[-1]
    job = person.slurm_job()
    running = f"SLURM job {job.id}: RUNNING on {job.fields['NodeList']}"
    person.server.wait_for(lambda: running in person.said(), SOON_S)
    person.go()
    person.succeeds(agent)
    assert job.end[0] == "COMPLETED"
    assert f"Submitted SLURM job {job.id}: --mem=300M" in person.said()
    assert sorted(path.name for path in person.job.path.iterdir()) == ["artifacts", "done.json"]


def test_being_told_to_stop_twice_frees_the_allocation(person: Person) -> None:
    agent = person.agent()
    person.is_trained()
    job = person.slurm_job()
    agent.process.send_signal(signal.SIGTERM)
    time.sleep(0.3)
    assert agent.end(signal.SIGTERM) == 0, agent.said
    assert person.told.result is not None
    assert person.told.result["failure"]["code"] == "killed"
    assert person.told.result["exit"]["reason"] == "cancelled"
    job.ends()
    assert person.jobs() == []


def test_being_told_to_stop_twice_cancels_a_job_that_waits(person: Person) -> None:
    agent = person.agent(sbatch_args=["--hold"])
    agent.wait_until(lambda: any("JobHeldUser" in step for step in person.told.steps))
    job = person.slurm_job()
    began = time.monotonic()
    for _ in range(2):
        agent.process.send_signal(signal.SIGTERM)
        time.sleep(0.3)
    assert agent.process.wait(SOON_S) == 0, agent.said
    assert time.monotonic() - began < 10.0
    assert job.end[0] == "CANCELLED"
    assert person.jobs() == []


def test_a_job_that_slurm_refuses_is_told_at_once(person: Person) -> None:
    began = time.monotonic()
    agent = person.agent(partition="nosuch")
    assert agent.process.wait(SOON_S) == 0, agent.said
    assert person.told.result is not None
    assert person.told.result["failure"]["code"] == "slurm_failed"
    assert "invalid partition specified: nosuch" in person.told.result["failure"]["message"]
    assert time.monotonic() - began < 10.0


def test_an_agent_that_is_started_again_takes_the_job_up(person: Person) -> None:
    killed = person.agent()
    person.is_trained()
    job = person.slurm_job()
    killed.kill()
    agent = person.agent()
    person.go()
    person.succeeds(agent)
    assert "is taken up" in agent.said
    assert job.end[0] == "COMPLETED"


def test_an_agent_that_was_killed_before_it_noted_its_job_finds_it_again(person: Person) -> None:
    mark, wrapper = person.folder / "once", person.folder / "bin" / "sbatch"
    mark.touch()
    wrapper.parent.mkdir()
    wrapper.write_text(KILLS_ITS_AGENT.format(sbatch=shutil.which("sbatch"), mark=mark))
    wrapper.chmod(0o755)
    assert person.agent(path=str(wrapper.parent)).process.wait(SOON_S) == -signal.SIGKILL
    assert person.slurm_job().id == ""
    [job_id] = person.jobs()
    agent = person.agent(path=str(wrapper.parent))
    person.is_trained()
    person.server.wait_for(lambda: person.slurm_job().id == job_id, SOON_S)
    assert person.jobs() == [job_id]
    person.go()
    person.succeeds(agent)
