"""An agent on a workstation behind NAT, real in network namespaces: cut links lose nothing, or end truly."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from agent_process import AgentProcess
from nat import SERVER, Nat
from server_process import API, ServerProcess
from whole_runs import ended, in_step, projects, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.config.admin_key import find_admin_key
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

PORT = 8000
BACKENDS = {"ws": {"type": "agent"}, "quick": {"type": "agent", "heartbeat_timeout_s": 8}}
STEPS = {"training": "rehearsing", "predicting": "predicting on items that the model has not seen"}
CUT_S = 20.0 if os.environ.get("POTATO_RAY_LONG") else 4.0


class Lab:
    """A server on one side of the router, and an agent on the other."""

    def __init__(self, nat: Nat, config: ProjectConfig, workdir: Path) -> None:
        self.nat, self.config, self.workdir = nat, config, workdir
        inside = nat.inside(nat.server)
        self.server = ServerProcess(config, "--host", SERVER, port=PORT, inside=inside)
        self.url = f"http://{SERVER}:{PORT}"
        self.agents: list[AgentProcess] = []
        try:
            self.server.wait_until(self._is_ready)
        except BaseException:
            self.server.close()
            raise

    def _is_ready(self) -> bool:
        try:
            return bool(self.ask("GET", "/health")["controller"] == "ready")
        except httpx.TransportError:
            return False

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        headers = {"X-API-Key": find_admin_key(self.config) or ""}

        def work() -> httpx.Response:
            return httpx.request(method, self.url + path, json=body, headers=headers, timeout=20.0)

        answer = self.nat.within(self.nat.server, work)
        assert answer.status_code < 300, answer.text
        return dict(answer.json())

    def agent(self, backend: str = "ws") -> AgentProcess:
        token = self.ask("POST", f"/api/training/backends/{backend}/register", {})["token"]
        inside = self.nat.inside(self.nat.workstation)
        self.agents.append(AgentProcess(self.url, token, self.workdir, backend=backend, inside=inside))
        return self.agents[-1]

    def start(self, act: str, backend: str = "ws") -> str:
        body = {
            "trainer": "rehearsal",
            "schemas": ["sentiment"],
            "params": {"act": act},
            "backend": backend,
        }
        return str(self.ask("POST", f"{API}/runs", body)["run_id"])

    def go(self, run_id: str) -> None:
        [folder] = self.workdir.glob(f"jobs/{run_id}*")
        (folder / "go").touch()

    def dismiss(self) -> None:
        for agent in self.agents:
            agent.close()
        self.agents.clear()
        shutil.rmtree(self.workdir, ignore_errors=True)


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with Nat() as nat, projects() as make_project:
        lab = Lab(nat, make_project(backends=BACKENDS), tmp_path_factory.mktemp("agent"))
        yield lab
        lab.dismiss()
        lab.server.close()


@pytest.fixture
def lab(running: Lab) -> Iterator[Lab]:
    yield running
    running.dismiss()


def succeeded(lab: Lab, run_id: str) -> Run:
    run = ended(lab.config, run_id)
    assert (run.state, run.attempt) == (State.SUCCESS, 1), (run.error, [a.said for a in lab.agents])
    assert len(list(RegistryReader(lab.config.registry_path).predictions(run_id))) > 0
    return run


def claimed(run: Run) -> bool:
    return run.state not in (State.QUEUED, State.OFFERED)


def test_a_machine_that_the_server_cannot_reach_trains_for_it(lab: Lab) -> None:
    reach = lab.nat.within(lab.nat.server, lambda: _connects("10.77.1.2", 22))
    assert not reach
    lab.agent()
    run = succeeded(lab, lab.start("succeed"))
    assert run.artifact_uri


@pytest.mark.parametrize("phase", ["before the claim", "fetching", "training", "predicting"])
def test_a_link_that_is_cut_for_a_while_loses_nothing(lab: Lab, phase: str) -> None:
    act = {"training": "wait", "predicting": "hold"}.get(phase, "succeed")
    lab.agent()
    if phase == "before the claim":
        lab.nat.cut()
    run_id = lab.start(act)
    if phase == "fetching":
        wait_until(lab.config, run_id, claimed)
    if phase in ("training", "predicting"):
        wait_until(lab.config, run_id, in_step(STEPS[phase]))
    if phase != "before the claim":
        lab.nat.cut()
    if act != "succeed":
        lab.go(run_id)
    time.sleep(CUT_S)
    lab.nat.mend()
    succeeded(lab, run_id)


def test_a_link_that_is_cut_for_too_long_ends_the_run_on_both_sides(lab: Lab) -> None:
    agent = lab.agent(backend="quick")
    run_id = lab.start("wait", backend="quick")
    wait_until(lab.config, run_id, in_step("rehearsing"))
    with lab.nat.broken():
        run = ended(lab.config, run_id)
    assert (run.error_code, run.error) == ("heartbeat_lost", "No word from the agent on quick for 8 seconds.")
    agent.wait_until(lambda: set(agent.left()) <= {agent.process.pid})
    succeeded(lab, lab.start("succeed", backend="quick"))
    assert agent.end(signal.SIGTERM) == 0


def _connects(host: str, port: int) -> bool:

    try:
        socket.create_connection((host, port), timeout=2.0).close()
    except OSError:
        return False
    return True
