"""A server whose runs are jobs of a real SLURM, behind a login node that it reaches over a real sshd."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from gpu_machine import FAKE_TORCH
from server_process import ServerProcess
from slurm_cluster import SlurmCluster
from slurm_job import SlurmJob
from ssh_lab import PLUGIN, SshLab
from sshd import ALIAS, Sshd
from whole_runs import MakeProject, projects

from potato_ray.agent.slurm.submission import Submission

SOON_LOST = Path(__file__).parent / "soon_lost"
LOST_AFTER_S = 12.0
GRACE_S = 2


class SlurmLab(SshLab):
    """An SshLab whose other backends submit, one for each of `variants`: more of its keys, by its name.

    A variant with a type is a backend of that type, with these keys alone.
    `slurm_env`: what SLURM's commands on the login node find the cluster by.
    """

    def __init__(
        self,
        cluster: SlurmCluster,
        sshd: Sshd,
        make_project: MakeProject,
        remote_dir: Path,
        variants: Mapping[str, Mapping[str, Any]],
        slurm_env: Mapping[str, str],
        **training: Any,
    ) -> None:
        self.cluster = cluster
        self.squeues = remote_dir.parent / "squeues"
        """A line for each squeue that was run."""
        bin_dir = _counting(remote_dir.parent / "bin", self.squeues)
        usual = {
            "type": "slurm",
            "host": ALIAS,
            "python": sys.executable,
            "job_python": sys.executable,
            "remote_dir": str(remote_dir),
            "mem": "400M",
            "poll_interval_s": 1,
            "env": {
                "PYTHONPATH": f"{PLUGIN}:{FAKE_TORCH}",
                "PATH": f"{bin_dir}:/usr/local/bin:/usr/bin:/bin",
                **slurm_env,
            },
        }
        backends = {name: {**({} if "type" in keys else usual), **keys} for name, keys in variants.items()}
        limits = {"max_concurrent_runs": 20, "queue_max": 20, "retain_runs": 50, "grace_seconds": GRACE_S}
        super().__init__(sshd, make_project, remote_dir, None, backends, **{**limits, **training})

    def _serve(self, port: int = 0) -> ServerProcess:
        # Workers are lost sooner than after 300 s.
        path = os.environ.get("PYTHONPATH", "")
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PYTHONPATH", f"{SOON_LOST}{os.pathsep}{path}")
            patch.setenv("LC_POTATO_RAY_LOST_AFTER", str(LOST_AFTER_S))
            return super()._serve(port)

    def slurm_job(self, run_id: str) -> SlurmJob:
        """The SLURM job of a run, once it was submitted."""
        folder = self.job(run_id)
        submission = Submission.read(folder)
        assert submission is not None
        return self.cluster.job(submission.job_id, folder)

    def jobs(self) -> list[str]:
        """The ids of all jobs that SLURM knows, ended or not."""
        return self.cluster.ask("squeue", "--noheader", "--states=all", "--format=%A").split()


def _counting(folder: Path, record: Path) -> Path:
    """A folder with a squeue that notes each call, and then is the real one."""
    folder.mkdir()
    wrapper = folder / "squeue"
    wrapper.write_text(f'#!/bin/sh\necho >> {record}\nexec {shutil.which("squeue")} "$@"\n')
    wrapper.chmod(0o755)
    return folder


def _impatient(cluster: SlurmCluster) -> dict[str, str]:
    """For commands that wait two seconds for an answer, where SLURM's own processes wait ten."""
    conf = cluster.folder / "impatient.conf"
    usual = (cluster.folder / "slurm.conf").read_text()
    conf.write_text(usual.replace("MessageTimeout=10\n", "MessageTimeout=2\n"))
    return {**cluster.env, "SLURM_CONF": str(conf)}


@contextmanager
def slurm_lab(
    cluster: SlurmCluster,
    variants: Mapping[str, Mapping[str, Any]],
    *,
    impatient: bool = False,
    **training: Any,
) -> Iterator[SlurmLab]:
    """The whole of it, on storage that login and compute nodes share: this machine's disk.

    `training` are further keys of the project's model_training.
    `impatient`: the login node sees within seconds that SLURM is away.
    """
    slurm_env = _impatient(cluster) if impatient else cluster.env
    with (
        # Not below /tmp, which counts as each node's own.
        tempfile.TemporaryDirectory(prefix=".prt-", dir=Path.home()) as folder,
        Sshd(env={**slurm_env, "PATH": "/usr/local/bin:/usr/bin:/bin"}) as sshd,
        projects() as make_project,
    ):
        Path(folder).chmod(0o755)
        shared = Path(folder) / "shared"
        with SlurmLab(cluster, sshd, make_project, shared, variants, slurm_env, **training) as lab:
            yield lab
