"""A server whose runs execute on a host that it logs in to: a real sshd on this machine."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx
import yaml
from server_process import API, ServerProcess
from sshd import ALIAS, Sshd
from whole_runs import MakeProject, ended

from potato_ray.config import ProjectConfig, load
from potato_ray.job.processes import marked
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

GONE_S = 15.0
PLUGIN = Path(__file__).parent / "plugin"
"""Where the playing trainer is: a login shell knows nothing of it."""


class SshLab:
    """`keys` are those of the backend `gpu` besides type and host; the host's files lie in `remote_dir`.

    `debug`: a server that takes everybody on its machine for an admin.
    """

    def __init__(
        self,
        sshd: Sshd,
        make_project: MakeProject,
        remote_dir: Path,
        keys: Mapping[str, Any] | None = None,
        backends: Mapping[str, Any] | None = None,
        *,
        debug: bool = False,
        **training: Any,
    ) -> None:
        self.sshd = sshd
        self.remote_dir = remote_dir
        gpu = {
            "type": "ssh",
            "host": ALIAS,
            "python": sys.executable,
            "remote_dir": str(remote_dir),
            "env": {"PYTHONPATH": str(PLUGIN)},
            **(keys or {}),
        }
        self.config: ProjectConfig = make_project(backends={"gpu": gpu, **(backends or {})}, **training)
        if debug:
            self.config = _debugged(self.config)
        self.server = self._serve()

    def __enter__(self) -> SshLab:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.close()
        shutil.rmtree(self.remote_dir, ignore_errors=True)

    def _serve(self, port: int = 0) -> ServerProcess:
        before = os.environ["PATH"]
        os.environ["PATH"] = f"{self.sshd.bin}:{before}"
        try:
            server = ServerProcess(self.config, port=port)
        finally:
            os.environ["PATH"] = before
        try:
            return server.wait_ready()
        except BaseException:
            server.close()
            raise

    def restart(self) -> None:
        """kill -9 of the server and of all that it has started here, and another one on the same port."""
        port = httpx.URL(self.server.url).port
        self.server.close()
        self.server = self._serve(port or 0)

    @property
    def reader(self) -> RegistryReader:
        return RegistryReader(self.config.registry_path)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        url, headers = self.server.url + path, self.server.headers()
        answer = httpx.post(url, json=body, headers=headers, timeout=60.0)
        assert answer.status_code in (200, 201, 202), answer.text
        return dict(answer.json())

    def start(
        self, act: str | None = None, backend: str = "gpu", trainer: str = "rehearsal", **params: Any
    ) -> str:
        """Start a run, of a playing trainer where an act is named; its id."""
        body = {
            "trainer": trainer if act else "sklearn-text",
            "schemas": ["sentiment"],
            "params": {**params, **({"act": act} if act else {})},
            "backend": backend,
        }
        return str(self.post(f"{API}/runs", body)["run_id"])

    def job(self, run_id: str, remote_dir: Path | None = None) -> Path:
        """The job folder of a run on the host, once it is there."""
        [folder] = (remote_dir or self.remote_dir).glob(f"runs/{run_id}.*/jobs/{run_id}.*")
        return folder

    def go(self, run_id: str, remote_dir: Path | None = None) -> None:
        """Let a rehearsal that waits for it go on, on the host."""
        (self.job(run_id, remote_dir) / "go").touch()

    def succeeded(self, run_id: str) -> Run:
        run = ended(self.config, run_id)
        assert run.state == State.SUCCESS, (run.error, run.error_evidence, self.log(run_id), self.sshd.log)
        assert run.attempt == 1
        return run

    def log(self, run_id: str) -> str:
        """The run's log, as its page shows it."""
        url = f"{self.server.url}{API}/runs/{run_id}/log"
        return httpx.get(url, headers=self.server.headers(), timeout=20.0).text

    def nothing_is_left(self, run_id: str, remote_dir: Path | None = None) -> bool:
        """Whether the run's processes and folder on the host are gone, soon."""
        deadline = time.monotonic() + GONE_S
        while self.left(run_id, remote_dir):
            if time.monotonic() > deadline:
                return False
            time.sleep(0.05)
        return True

    def left(self, run_id: str, remote_dir: Path | None = None) -> list[str]:
        """What of a run is left on the host."""
        runs = [str(path) for path in (remote_dir or self.remote_dir).glob(f"runs/{run_id}*")]
        workers = [str(pid) for pid in marked([f"POTATO_RAY_JOB={run_id}:1"])]
        agents = [str(pid) for pid in self._agents(run_id)]
        return [*runs, *workers, *agents]

    @staticmethod
    def _agents(run_id: str) -> list[int]:
        found = []
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                command = path.read_bytes()
            except OSError:
                continue
            if run_id.encode() in command and b"host/start.py" in command:
                found.append(int(path.parent.name))
        return found

    def agent_pid(self, run_id: str) -> int:
        """The agent of a run on the host."""
        [pid] = self._agents(run_id)
        return pid


def _debugged(config: ProjectConfig) -> ProjectConfig:
    body = yaml.safe_load(config.path.read_text("utf-8"))
    config.path.write_text(yaml.safe_dump({**body, "debug": True}, allow_unicode=True), "utf-8")
    return load(config.path)


def socket_folders(uid: int) -> list[Path]:
    """The folders of agents' sockets that an account has on this machine."""
    return [path for path in Path("/tmp").glob("potato-????????") if path.stat().st_uid == uid]
