"""Agents as a place where jobs run: the server's real routes, a real agent, and a controller without Ray.

make_job ── a run waits in the registry, its job in the run's folder
hand_over ─ on offer ─▶ claimed by the agent ─▶ packed: from here on it is followed, as in a server
clear_up ── the run has ended: the agent lets go of what it still has of it
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from agent_at_work import AgentAtWork, end_job
from agent_link import AGENT_BACKENDS, NAME, AgentLink
from job_making import make_job
from serving import serving

from potato_ray.agent.held_job import HELD
from potato_ray.backends.agent import AgentBackend, AgentSettings
from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.config import ProjectConfig, load
from potato_ray.job import processes
from potato_ray.registry.agents import AgentSeen
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import NewRun, Run
from potato_ray.registry.states import State
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
WITHOUT_TOKEN = next(name for name in AGENT_BACKENDS if name != NAME)
GRACE_S = 1.5
"""model_training.grace_seconds: what the agent is told when a run is cancelled."""


class Reached(NamedTuple):
    """The server as an agent knows it."""

    url: str
    token: str


class AgentSite:
    """One server and one agent. Any number of followers; one job at a time."""

    def __init__(self, link: JobsLink, reader: RegistryReader, agent: AgentAtWork) -> None:
        self.link = link
        self.reader = reader
        self.agent = agent
        self._handing = threading.Lock()

    def backend(self, name: str = NAME) -> AgentBackend:
        """Another one with each call, as every process that works with it makes its own."""
        return HandingBackend(name, AgentSettings(f"{name}: an agent", self.reader), self)

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        """Let an agent on a machine with these GPUs have been seen; their uuids."""
        gpus = [
            {"uuid": f"GPU-{n}", "name": "X", "total_mb": 40000, "free_mb": free}
            for n, free in enumerate(free_mb)
        ]
        seen = AgentSeen(NAME, "5f2a90c1", "ws1", gpus=tuple(gpus), last_seen=1772357400.0)
        self.link.write(self.link.registry.put_agents_seen, [seen])
        return [str(gpu["uuid"]) for gpu in gpus]

    def make_job(self, play: str, **limits: Any) -> Job:
        """A run that waits, and its job."""
        new = NewRun("playing", ("sentiment",), ("nominal",), {}, NAME)
        run = self.link.write(
            self.link.registry.create_run, new, queue_max=99, allow_queue=True, max_concurrent=99
        )
        return make_job(self.link.folder(run.run_id).path, play, **limits)

    def hand_over(self, job: Job) -> None:
        """Give the run to the agent, once."""
        with self._handing:
            if self._state(job) is not State.QUEUED:
                return
            self.link.move(job.run_id, State.OFFERED)
            self.agent.wait_for(lambda: self.link.folder(job.run_id).read_job(job.attempt))

    def let_go(self, job: Job) -> None:
        """Let a worker that waits for a word go on."""
        folder = self.agent.folder(job.run_id).path
        self.agent.wait_for(folder.exists)
        (folder / "go").touch()

    def lose(self, run_id: str) -> None:
        """Kill every process of a job, where the agent is."""
        end_job(self.agent.folder(run_id))

    def clear_up(self, job: Job) -> None:
        """End the run, and see that the agent has nothing of it any more."""
        if self._state(job) is not State.ERROR:
            self.link.move(job.run_id, State.ERROR)
        held = self.agent.folder(job.run_id).path / HELD
        self.agent.wait_for(lambda: not held.exists())
        assert processes.marked([f"POTATO_RAY_JOB={job.run_id}:{job.attempt}"]) == []

    def _state(self, job: Job) -> State:
        return self.link.write(self.link.registry.run, job.run_id).state


class HandingBackend(AgentBackend):
    """An agent backend; who executes a job first hands it over, as the controller does before."""

    def __init__(self, name: str, settings: AgentSettings, site: AgentSite) -> None:
        super().__init__(name, settings)
        self._site = site

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        self._site.hand_over(job)
        return super().execute(job, sink)


class JobsLink(AgentLink):
    """Gives out jobs that lie in the runs' folders already."""

    def make_job(self, run: Run) -> dict[str, Any]:
        self.move(run.run_id, State.RUNNING)
        return super().make_job(run)


@contextmanager
def agent_site(folder: Path) -> Iterator[AgentSite]:
    """A server and its agent, for the length of the block."""
    link = JobsLink(_config(folder / "project"))
    reader = RegistryReader(link.config.registry_path, project=link.config.annotation_task_name)
    try:
        with serving(create_app(ServerContext(link.config, reader, link, admin_key="k"))) as url:
            server = Reached(url, link.token())
            agent = AgentAtWork(server, folder / "work", backend=NAME, once=False)
            try:
                yield AgentSite(link, reader, agent)
            finally:
                agent.close()
    finally:
        link.close()


def _config(folder: Path) -> ProjectConfig:
    shutil.copytree(PROJECT, folder)
    path = folder / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    body["model_training"].update(backends=AGENT_BACKENDS, grace_seconds=GRACE_S, max_concurrent_runs=9)
    path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
    return load(path)
