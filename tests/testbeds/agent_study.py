"""A project on a server, and agents that work for it on a machine of their own: a folder of this one."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
from agent_process import AgentProcess
from server_process import API, ServerProcess

from potato_ray.agent.held_job import is_done
from potato_ray.config import ProjectConfig
from potato_ray.job.folder import JobFolder
from potato_ray.registry.reading import RegistryReader

GONE_WITHIN_S = 10.0


class Study:
    """Its server is ready when this has been made, and has made a token for each of `backends`.

    `address` is where its agents find it: the server itself, unless somebody puts something between them.
    """

    def __init__(self, config: ProjectConfig, workdir: Path, backends: Mapping[str, Any]) -> None:
        self.config = config
        self.workdir = workdir
        self.agents: list[AgentProcess] = []
        self.server = ServerProcess(config)
        try:
            self.server.wait_ready()
            self.tokens = {name: self._register(name) for name in backends}
        except BaseException:
            self.server.close()
            raise
        self.address = self.server.url

    def _register(self, backend: str) -> str:
        return str(self.post(f"/api/training/backends/{backend}/register", {})["token"])

    @property
    def reader(self) -> RegistryReader:
        return RegistryReader(self.config.registry_path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        url, headers = self.server.url + path, self.server.headers()
        answer = httpx.post(url, json=body, headers=headers, timeout=40.0)
        assert answer.status_code in (200, 201, 202), answer.text
        return dict(answer.json())

    def agent(self, *arguments: str, backend: str = "ws") -> AgentProcess:
        token = self.tokens[backend]
        agent = AgentProcess(self.address, token, self.workdir, *arguments, backend=backend)
        self.agents.append(agent)
        return agent

    def dismiss(self) -> None:
        """Kill all agents and what they have started, and forget their jobs."""
        for agent in self.agents:
            agent.close()
        self.agents.clear()
        shutil.rmtree(self.workdir, ignore_errors=True)

    def start(self, act: str | None = None, backend: str = "ws") -> str:
        params = {"act": act} if act else {}
        trainer = "rehearsal" if act else "sklearn-text"
        body = {"trainer": trainer, "schemas": ["sentiment"], "params": params, "backend": backend}
        return str(self.post(f"{API}/runs", body)["run_id"])

    def jobs_of(self, run_id: str) -> dict[str, JobFolder]:
        """The job folders of a run on the agents' machine, by name: one for each attempt that came there."""
        return {path.name: JobFolder(path) for path in sorted(self.workdir.glob(f"jobs/{run_id}.*"))}

    def jobs_in_hand(self) -> list[str]:
        """What lies among the agents' jobs and is not that of a job that is done with."""
        return [path.name for path in self.workdir.glob("jobs/*") if not is_done(path)]

    def go(self, run_id: str) -> None:
        """Let a rehearsal that waits for it go on, on the agent's machine."""
        [folder] = self.jobs_of(run_id).values()
        (folder.path / "go").touch()

    def restart(self) -> None:
        """kill -9 of the server and of all that it has started, and another one on the same port."""
        port = httpx.URL(self.server.url).port
        self.server.close()
        self.server = ServerProcess(self.config, port=port or 0).wait_ready()

    def working(self) -> list[int]:
        """The processes of jobs on the agents' machine that live; the agents themselves are none."""
        mine = {agent.process.pid for agent in self.agents}
        return sorted({pid for agent in self.agents for pid in agent.left()} - mine)

    def comes_to_rest(self) -> bool:
        """Whether the jobs' processes on the agents' machine are gone, soon; its agents may live."""
        deadline = time.monotonic() + GONE_WITHIN_S
        while self.working():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def close(self) -> None:
        self.dismiss()
        self.server.close()
