"""A real SLURM behind a real sshd as a place where jobs run: the server's agent socket, and no Ray."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from agent_link import AgentLink
from slurm_cluster import SlurmCluster
from ssh_place import NAME, HostSite
from sshd import ALIAS, Sshd

from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.slurm import SlurmBackend
from potato_ray.backends.slurm_settings import SlurmSettings
from potato_ray.job.processes import end_marked
from potato_ray.ssh import Destination

KEYS = {"mem": "300M", "poll_interval_s": 0.3}
SEARCH_PATH = "/usr/local/bin:/usr/bin:/bin"


class SlurmSite(HostSite):
    """One login node, its cluster, and the server's socket. Any number of followers and jobs."""

    def __init__(self, link: AgentLink, sshd: Sshd, remote_dir: Path, cluster: SlurmCluster) -> None:
        super().__init__(link, sshd, remote_dir)
        self.cluster = cluster
        self._asked: Mapping[str, Any] = {}

    def backend(self, env: Mapping[str, str] | None = None) -> SlurmBackend:
        """Another one with each call; `env` in place of what its commands need to find the cluster."""
        env = env if env is not None else {"PATH": SEARCH_PATH, **self.cluster.env}
        settings = SlurmSettings(
            destination=Destination(ALIAS),
            description="gpu: a cluster",
            python=sys.executable,
            remote_dir=str(self.remote_dir),
            env=env,
            keys={**KEYS, **self._asked, "job_python": sys.executable, "env": dict(env)},
        )
        return HandingSlurmBackend(NAME, settings, self.means, site=self)

    def have_cards(self, free_mb: Sequence[int]) -> list[str]:
        """Let jobs ask for a GPU where there are any; their uuids, which SLURM does not say."""
        self._asked = {"gres": "gpu:1"} if free_mb else {}
        return []

    def lose(self, run_id: str) -> None:
        """Kill the worker of a job on its node; its launcher, whose word is waited for long, says so."""
        end_marked([f"POTATO_RAY_JOB={run_id}:1"], patience_s=2.0)

    def clear_up(self, job: Job) -> None:
        """End the run, and see that the cluster has nothing of it."""
        super().clear_up(job)
        self.cluster.clear()


class HandingSlurmBackend(SlurmBackend):
    """A slurm backend; who executes a job first hands it over, as the controller does before."""

    def __init__(self, *given: Any, site: SlurmSite) -> None:
        super().__init__(*given)
        self._site = site

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        self._site.hand_over(job)
        return super().execute(job, sink)


@contextmanager
def slurm_site(cluster: SlurmCluster, host: HostSite) -> Iterator[SlurmSite]:
    """That host as the login node of a cluster, for the length of the block."""
    # Not below /tmp, which counts as each node's own.
    with tempfile.TemporaryDirectory(prefix=".prt-", dir=Path.home()) as storage:
        Path(storage).chmod(0o755)
        yield SlurmSite(host.link, host.sshd, Path(storage) / "training", cluster)
