"""A server on one side of a router that masquerades, an agent on the other, and a link that can be cut."""

from __future__ import annotations

import base64
import contextlib
import json
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
from agent_process import AgentProcess
from nat import SERVER, Nat
from server_process import API, ServerProcess
from slow_link import SlowLink
from whole_runs import reader_of

from potato_ray.config import ProjectConfig
from potato_ray.config.admin_key import find_admin_key
from potato_ray.job.folder import JobFolder
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.runs import Run

PORT = 8000
DEADLINE_S = 60.0
RESETS_S = 0.5
MB = 2**20
ITEM_BYTES = 75_000  # 100,000 characters in base64, of which packing leaves about as many bytes again


def add_incompressible_items(config: ProjectConfig, mb: float) -> None:
    """More items, which nobody has labelled and no archive makes smaller than so many MiB."""
    noise = random.Random(0)
    (path,) = config.data_paths
    items = json.loads(path.read_text("utf-8"))
    for number in range(int(mb * MB) // ITEM_BYTES + 1):
        text = base64.b64encode(noise.randbytes(ITEM_BYTES)).decode()
        items.append({"id": f"noise-{number}", "text": text})
    path.write_text(json.dumps(items), "utf-8")


class Lab:
    """The server is up once this is made; `dismiss` ends its agents and what they have left."""

    def __init__(self, nat: Nat, link: SlowLink, config: ProjectConfig, workdir: Path) -> None:
        self.nat, self.link, self.config, self.workdir = nat, link, config, workdir
        inside = nat.inside(nat.server)
        self.server = ServerProcess(config, "--host", SERVER, port=PORT, inside=inside)
        self.url = f"http://{SERVER}:{PORT}"
        self.agents: list[AgentProcess] = []
        self.runs: list[str] = []
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

    def agent(self, *arguments: str, backend: str = "ws") -> AgentProcess:
        token = self.ask("POST", f"/api/training/backends/{backend}/register", {})["token"]
        inside = self.nat.inside(self.nat.workstation)
        agent = AgentProcess(self.url, token, self.workdir, *arguments, backend=backend, inside=inside)
        self.agents.append(agent)
        return agent

    def start(self, act: str, backend: str = "ws") -> str:
        body = {"trainer": "rehearsal", "schemas": ["sentiment"], "params": {"act": act}, "backend": backend}
        self.runs.append(str(self.ask("POST", f"{API}/runs", body)["run_id"]))
        return self.runs[-1]

    def go(self, run_id: str) -> None:
        (self.job(run_id).path / "go").touch()

    def dismiss(self) -> None:
        """End the agents, and what a test has left: a link that is cut or slow, runs."""
        self.link.restore()
        try:
            self._end_runs()
        finally:
            for agent in self.agents:
                agent.close()
            self.agents.clear()
            shutil.rmtree(self.workdir, ignore_errors=True)

    def _end_runs(self) -> None:
        """Only a test that fails leaves runs; those of the next ones would wait for them."""
        for run_id in self.runs:
            if not self.run(run_id).ended:
                self.ask("POST", f"{API}/runs/{run_id}/cancel", {})
                self.ended(run_id)
        self.runs.clear()

    # What there is of a run on both sides

    def run(self, run_id: str) -> Run:
        return reader_of(self.config).run(run_id)

    def mirror(self, run_id: str) -> MirrorFolder:
        """The run's folder on the server."""
        return MirrorFolder(self.config.training_dir / "runs" / run_id)

    def job(self, run_id: str) -> JobFolder:
        """The run's folder on the workstation; AssertionError where there is none."""
        found = list(self.workdir.glob(f"jobs/{run_id}.*"))
        assert len(found) == 1, found
        return JobFolder(found[0])

    def fetched_bytes(self, run_id: str) -> int:
        """So much of a bundle that is not whole has come to the workstation."""
        return _sizes(self.workdir.glob(f"jobs/{run_id}.*/.*.part"))

    def uploaded_bytes(self, run_id: str) -> int:
        """So much of predictions that are not whole has come to the server."""
        return _sizes(self.mirror(run_id).path.glob(".predictions.*.part"))

    def bundle_bytes(self, run_id: str) -> int:
        """The size of the packed bundle, while it can be fetched."""
        job = json.loads(self.mirror(run_id).job.read_text("utf-8"))
        return int(job["bundle"]["bytes"])

    def wait_until(self, run_id: str, true: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
        """Wait until something is true; fails at the deadline, or where the run has ended before."""
        deadline = time.monotonic() + within_s
        while not true():
            run = self.run(run_id)
            assert not run.ended or true(), (run.state, run.error, run.error_evidence, self._said())
            assert time.monotonic() < deadline, (run.step, self._said())
            time.sleep(0.02)

    def ended(self, run_id: str, within_s: float = DEADLINE_S) -> Run:
        self.wait_until(run_id, lambda: self.run(run_id).ended, within_s)
        return self.run(run_id)

    def _said(self) -> list[str]:
        return [agent.said for agent in self.agents]

    # The link

    def received_bytes(self) -> int:
        """What has come to the workstation over the link, whatever had to come again included."""
        return self._counted(self.nat.workstation, "rx_bytes")

    def sent_bytes(self) -> int:
        """What the server's only way out has sent, what had to be sent again included."""
        return self._counted(self.nat.server, "tx_bytes")

    def _counted(self, name: str, counter: str) -> int:
        inside = [*self.nat.inside(name), "cat", f"/sys/class/net/toward/statistics/{counter}"]
        told = subprocess.run(inside, capture_output=True, text=True, check=True, timeout=20)
        return int(told.stdout)

    @contextlib.contextmanager
    def silence(self) -> Iterator[None]:
        """Every packet is lost for the length of a `with` block; neither side hears of it."""
        self.link.cut()
        try:
            yield
        finally:
            self.link.mend()

    @contextlib.contextmanager
    def outage(self) -> Iterator[None]:
        """The router ends every connection and says so; then the line is down, as long as a `with` block."""
        with self.nat.resetting():
            time.sleep(RESETS_S)
            self.link.cut()
        try:
            yield
        finally:
            self.link.mend()


def _sizes(paths: Iterator[Path]) -> int:
    total = 0
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # it has just become whole
            total += path.stat().st_size
    return total
