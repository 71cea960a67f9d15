"""A login node of a real SLURM, from which jobs are submitted as an agent does it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from job_making import TRAINER, make_job
from slurm_cluster import SlurmCluster
from slurm_job import SlurmJob

import potato_ray
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.slurm.script import job_script
from potato_ray.agent.slurm.submission import submit

CODE = Path(potato_ray.__file__).parent.parent


class LoginNode:
    """From where a test submits; the job folders lie below `folder`."""

    def __init__(self, cluster: SlurmCluster, folder: Path) -> None:
        self.cluster = cluster
        self.folder = folder
        self.slurm = Slurm(cluster.env, host="login")

    def submit(self, folder: Path, script: Callable[[str], str]) -> SlurmJob:
        submission = submit(self.slurm, folder, "run-7.1", script, threading.Event())
        return self.cluster.job(submission.job_id, folder)

    def launch(
        self, name: str = "job", play: str = "succeed", *, trainer: str = TRAINER, **keys: Any
    ) -> SlurmJob:
        """Submit a job folder with our launcher, by the keys of a backend."""
        folder = make_job(self.folder / name, play, gpu_uuids=None).folder
        spec = folder / "spec.json"
        spec.write_text(spec.read_text().replace(TRAINER, trainer))
        known = SlurmKeys.from_json(keys)
        return self.submit(folder, lambda called: job_script(known, called, folder, CODE, sys.executable))

    def plain(self, name: str, *directives: str) -> SlurmJob:
        """Submit a script that sleeps."""
        folder = self.folder / name
        folder.mkdir(exist_ok=True)
        lines = "".join(f"#SBATCH {each}\n" for each in (*directives, "--output=/dev/null"))
        return self.submit(
            folder, lambda called: f"#!/bin/sh\n#SBATCH --job-name={called}\n{lines}exec sleep 60\n"
        )
