"""Whole runs on an agent: from the start on the server to the score of what came home."""

from __future__ import annotations

import json
import shutil
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_process import AgentProcess
from server_process import API, ServerProcess
from whole_runs import ended, folder_of, in_step, projects, wait_until

from potato_ray.agent_tokens import digest_of
from potato_ray.config import ProjectConfig
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

BACKENDS = {"ws": {"type": "agent"}, "quick": {"type": "agent", "heartbeat_timeout_s": 8}}


class Study:
    """A project on a server, and agents that work for it."""

    def __init__(self, config: ProjectConfig, workdir: Path) -> None:
        self.config = config
        self.workdir = workdir
        self.agents: list[AgentProcess] = []
        self.server = ServerProcess(config)
        try:
            self.server.wait_ready()
            self.tokens = {name: self._register(name) for name in BACKENDS}
        except BaseException:
            self.server.close()
            raise

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
        agent = AgentProcess(self.server.url, token, self.workdir, *arguments, backend=backend)
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

    def go(self, run_id: str) -> None:
        """Let a rehearsal that waits for it go on, on the agent's machine."""
        [folder] = self.workdir.glob(f"jobs/{run_id}*")
        (folder / "go").touch()

    def restart(self) -> None:
        """kill -9 of the server and of all that it has started, and another one on the same port."""
        port = httpx.URL(self.server.url).port
        self.server.close()
        self.server = ServerProcess(self.config, port=port or 0).wait_ready()

    def close(self) -> None:
        self.dismiss()
        self.server.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """One server for the tests of this module."""
    with projects() as make_project:
        study = Study(make_project(backends=BACKENDS), tmp_path_factory.mktemp("agent"))
        yield study
        study.close()


@pytest.fixture
def study(running: Study) -> Iterator[Study]:
    yield running
    running.dismiss()


def nothing_is_left(study: Study) -> bool:
    """Whether the jobs' processes on the agent's machine are gone, soon; its agents may live."""
    mine = {agent.process.pid for agent in study.agents}
    deadline = time.monotonic() + 10.0
    while {pid for agent in study.agents for pid in agent.left()} - mine:
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def succeeded(study: Study, run_id: str) -> Run:
    run = ended(study.config, run_id)
    assert run.state == State.SUCCESS, (run.error, run.error_evidence, [a.said for a in study.agents])
    assert run.attempt == 1
    return run


def test_a_run_on_an_agent_is_scored_and_its_model_stays_there(study: Study) -> None:
    agent = study.agent("--once")
    run = succeeded(study, study.start())
    assert agent.process.wait(timeout=20.0) == 0, agent.said
    assert run.headline is not None
    assert run.headline["n_items"] > 0
    assert len(list(study.reader.predictions(run.run_id))) > 0
    model = Path(run.artifact_uri.partition(":")[2])
    assert (model / "model.skops").is_file(), run.artifact_uri
    assert nothing_is_left(study)


def test_a_run_waits_until_an_agent_asks_and_starts_within_a_second(study: Study) -> None:
    run_id = study.start(act="succeed")
    time.sleep(1.0)  # it would have begun by now
    assert study.reader.run(run_id).state == State.OFFERED
    study.agent("--once")
    succeeded(study, run_id)
    second = study.agent()
    second.wait_until(lambda: len(study.reader.agents("ws")) > 1)
    began = time.time()
    run = succeeded(study, study.start(act="succeed"))
    assert run.begun_at is not None
    assert run.begun_at - began < 1.5


def test_the_token_is_in_no_file_of_the_project_and_in_no_process_of_a_job(study: Study) -> None:
    token = study.tokens["ws"].encode()
    study.agent()
    run_id = study.start(act="wait")
    wait_until(study.config, run_id, in_step("rehearsing"))
    commands = [Path(f"/proc/{pid}/cmdline") for agent in study.agents for pid in agent.left()]
    assert not any(token in path.read_bytes() for path in commands)
    workers = {pid for agent in study.agents for pid in agent.left()} - {study.agents[0].process.pid}
    assert workers
    assert not any(token in Path(f"/proc/{pid}/environ").read_bytes() for pid in workers)
    study.go(run_id)
    succeeded(study, run_id)
    files = (
        path for top in (study.config.task_dir, study.workdir) for path in top.rglob("*") if path.is_file()
    )
    assert [path for path in files if token in path.read_bytes()] == []
    assert study.reader.backend_of_token(digest_of(study.tokens["ws"])) == "ws"


def test_a_cancel_reaches_the_worker_over_there(study: Study) -> None:
    study.agent()
    run_id = study.start(act="wait")
    wait_until(study.config, run_id, in_step("rehearsing"))
    study.post(f"{API}/runs/{run_id}/cancel", {})
    assert ended(study.config, run_id).state == State.CANCELLED
    assert nothing_is_left(study)
    succeeded(study, study.start(act="succeed"))


def test_a_run_goes_on_after_kill_9_of_its_agent_once_there_is_another(study: Study) -> None:
    first = study.agent()
    run_id = study.start(act="wait")
    wait_until(study.config, run_id, in_step("rehearsing"))
    first.kill()
    study.agent()
    study.go(run_id)
    succeeded(study, run_id)
    assert nothing_is_left(study)


def test_a_run_goes_on_after_kill_9_of_the_server(study: Study) -> None:
    study.agent()
    run_id = study.start(act="wait")
    wait_until(study.config, run_id, in_step("rehearsing"))
    study.restart()
    study.go(run_id)
    succeeded(study, run_id)
    succeeded(study, study.start(act="succeed"))


def test_an_agent_that_is_gone_is_late_first_and_its_run_lost_then(study: Study) -> None:
    agent = study.agent(backend="quick")
    run_id = study.start(act="wait", backend="quick")
    wait_until(study.config, run_id, in_step("rehearsing"))
    agent.process.send_signal(signal.SIGSTOP)
    wait_until(study.config, run_id, lambda run: run.step.startswith("no word from the agent on quick"))
    run = ended(study.config, run_id)
    word = "No word from the agent on quick for 8 seconds."
    assert (run.error_code, run.error) == ("heartbeat_lost", word)
    agent.process.send_signal(signal.SIGCONT)
    succeeded(study, study.start(act="succeed", backend="quick"))
    assert nothing_is_left(study)


def test_what_the_agent_says_of_itself_is_listed(study: Study) -> None:
    study.agent("--once")
    run = succeeded(study, study.start(act="succeed"))
    seen = study.reader.agents("ws")[0]
    assert (seen.host, seen.workdir) == (run.host, str(study.workdir))
    events = folder_of(study.config, run.run_id).events.read_text().splitlines()
    assert json.loads(events[-1])["event"] == "result"
