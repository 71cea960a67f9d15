"""What becomes of a job whose login node is gone for good, on a real SLURM."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from job_making import make_job
from slurm_cluster import SlurmCluster
from slurm_login_node import CODE, LoginNode

from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.slurm.script import job_script
from potato_ray.job.folder import JobFolder


@pytest.mark.parametrize("flags", [(), ("--begin=now+2",)], ids=["at work", "waits"])
def test_a_job_that_nobody_follows_gives_its_allocation_back(
    slurm: SlurmCluster, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    node = LoginNode(slurm, tmp_path)
    folder = make_job(tmp_path / "job", "wait", gpu_uuids=None, lost_after_s=2.0).folder
    keys = SlurmKeys.from_json({"sbatch_args": list(flags)})
    job = node.submit(folder, lambda name: job_script(keys, name, folder, CODE, sys.executable))
    job.ends()
    end = JobFolder(folder).read_exit()
    assert end is not None
    assert end.reason == "lost"
