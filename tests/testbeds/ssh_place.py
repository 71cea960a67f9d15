"""A host behind a real sshd as a place where jobs run: the server's agent socket, and no Ray.

make_job ── a run waits in the registry, its job in the run's folder
execute  ── begun, claimed for us, packed: from here on as the controller leaves it to a supervising task
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import fake_nvidia_smi
import yaml
from agent_jobs import digest, handed_over
from agent_link import AgentLink
from far_sshd import far_sshd
from job_making import make_job
from sshd import ALIAS, Sshd

from potato_ray.agent_place import place_of
from potato_ray.agent_tokens import digest_of, new_token
from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.grants import Grant, Means
from potato_ray.backends.ssh import SshBackend
from potato_ray.backends.ssh_settings import SshSettings
from potato_ray.config import ProjectConfig, load
from potato_ray.job.folder import JobFolder, write_json
from potato_ray.job.processes import end_marked, is_alive, kill
from potato_ray.mirror.folder import ClaimNote, MirrorFolder
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import NewRun
from potato_ray.registry.states import State
from potato_ray.server.agent_socket import AgentListening
from potato_ray.server.context import ServerContext
from potato_ray.shipping.host_archive import host_archive
from potato_ray.ssh import Destination

NAME = "gpu"
LEASE = "fedcba9876543210" * 2
PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
DEADLINE_S = 20.0


class HostSite:
    """One host, and the server's socket. Any number of followers and jobs."""

    def __init__(self, link: AgentLink, sshd: Sshd, remote_dir: Path) -> None:
        self.link = link
        self.sshd = sshd
        self.remote_dir = remote_dir
        self._handing = threading.Lock()

    @property
    def means(self) -> Means:
        """What a backend needs of the server."""
        state_dir = self.link.config.state_dir
        return Means(self._grant, place_of(state_dir), state_dir)

    def make_job(self, play: str, **limits: Any) -> Job:
        """A run that waits, and its job."""
        new = NewRun("playing", ("sentiment",), ("nominal",), {}, NAME)
        run = self.link.write(
            self.link.registry.create_run, new, queue_max=99, allow_queue=True, max_concurrent=99
        )
        return make_job(self.link.folder(run.run_id).path, play, **limits)

    def hand_over(self, job: Job) -> None:
        """What the controller does before somebody follows the run, once."""
        with self._handing:
            if self.link.write(self.link.registry.run, job.run_id).state is not State.QUEUED:
                return
            self.link.write(self.link.registry.begin, job.run_id, None, 99)
            mirror = MirrorFolder(job.folder)
            mirror.write_lease(job.attempt, LEASE)
            mirror.write_claim(ClaimNote(job.attempt, digest(LEASE), {}, time.time()))
            body = handed_over(job.folder, self.link.config.state_dir, job.run_id, NAME)
            code = host_archive(self.link.config.state_dir)
            write_json(mirror.job, {**body, "code": {"sha256": code.sha256, "bytes": code.n_bytes}})
            self.link.move(job.run_id, State.RUNNING)

    def _grant(self, run_id: str, attempt: int) -> Grant:
        token = new_token()
        self.link.write(self.link.registry.put_run_token, run_id, attempt, digest_of(token))
        return Grant(token, LEASE)

    def job(self, run_id: str) -> JobFolder:
        """The job folder on the host, once its worker is about to start there."""
        folder = self._folder(run_id)
        deadline = time.monotonic() + DEADLINE_S
        while not folder.path.exists():
            assert time.monotonic() < deadline, "the job did not come to the host"
            time.sleep(0.02)
        return folder

    def let_go(self, job: Job) -> None:
        """Let a worker that waits for a word go on; one that is yet to come to the host does not wait."""

        def go() -> None:
            with contextlib.suppress(AssertionError, OSError):  # it has come and gone already
                (self.job(job.run_id).path / "go").touch()

        threading.Thread(target=go, daemon=True).start()

    def lose(self, run_id: str) -> None:
        """Kill every process of a job on the host, its agent included."""
        end_marked([f"POTATO_RAY_JOB={run_id}:1"], patience_s=2.0)
        processes = self._folder(run_id).read_processes()
        if processes is not None:
            kill([each.pid for each in (processes.launcher, processes.worker) if is_alive(each)])

    def _folder(self, run_id: str) -> JobFolder:
        return JobFolder(self.remote_dir / "runs" / f"{run_id}.1" / "jobs" / f"{run_id}.1")

    def clear_up(self, job: Job) -> None:
        """End the run, and see that nothing of it is left on the host."""
        if not self.link.write(self.link.registry.run, job.run_id).ended:
            self.link.move(job.run_id, State.ERROR)
        self.lose(job.run_id)


class SshSite(HostSite):
    """The same as a machine with GPUs, which runs the jobs itself."""

    def __init__(self, link: AgentLink, sshd: Sshd, remote_dir: Path, smi_dir: Path) -> None:
        super().__init__(link, sshd, remote_dir)
        self.smi_dir = smi_dir

    def backend(self, **keys: Any) -> SshBackend:
        """Another one with each call, as every process that works with it makes its own."""
        usual = {"python": sys.executable, "remote_dir": str(self.remote_dir), "description": "gpu: a host"}
        settings = SshSettings(destination=Destination(ALIAS), **{**usual, **keys})
        return HandingSshBackend(NAME, settings, self.means, site=self)

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        """Give the host these GPUs and no others; their uuids."""
        return fake_nvidia_smi.write_cards(self.smi_dir, free_mb)


class HandingSshBackend(SshBackend):
    """An ssh backend; who executes a job first hands it over, as the controller does before."""

    def __init__(self, *given: Any, site: HostSite) -> None:
        super().__init__(*given)
        self._site = site

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        self._site.hand_over(job)
        return super().execute(job, sink)


@contextmanager
def ssh_site(folder: Path, rtt_ms: float = 0.0) -> Iterator[SshSite]:
    """A host so far away, and a server's socket for agents, for the length of the block."""
    smi_dir = folder / "smi"
    smi_dir.mkdir(parents=True)
    fake_nvidia_smi.install(folder / "bin")
    there = {"PATH": f"{folder / 'bin'}:/usr/local/bin:/usr/bin:/bin", "FAKE_SMI_DIR": str(smi_dir)}
    link = AgentLink(_config(folder / "project"))
    reader = RegistryReader(link.config.registry_path, project=link.config.annotation_task_name)
    listening = AgentListening(ServerContext(link.config, reader, link, admin_key="k"), ended=lambda: None)
    listening.start()
    before = os.environ["PATH"]
    try:
        with far_sshd(rtt_ms, env=there) as sshd:
            os.environ["PATH"] = f"{sshd.bin}:{before}"
            yield SshSite(link, sshd, folder / "training", smi_dir)
    finally:
        os.environ["PATH"] = before
        listening.stop()
        link.close()


def _config(folder: Path) -> ProjectConfig:
    shutil.copytree(PROJECT, folder)
    path = folder / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    backends = {NAME: {"type": "ssh", "host": ALIAS}}
    body["model_training"].update(backends=backends, grace_seconds=1.5, max_concurrent_runs=99)
    path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
    return load(path)
