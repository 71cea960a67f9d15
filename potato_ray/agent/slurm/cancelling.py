"""Cancelling a SLURM job by its name, which is known before its id is."""

from __future__ import annotations

from potato_ray.agent.errors import AgentError
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.submission import Submission


def cancel_by_name(slurm: Slurm, submission: Submission) -> str:
    """What has kept SLURM from it, "" for nothing; a job that has ended, or never was, is no failure."""
    problems = (_cancel(slurm, submission.name, cluster) for cluster in submission.clusters)
    return "; ".join([problem for problem in problems if problem])


def _cancel(slurm: Slurm, name: str, cluster: str) -> str:
    try:
        said = slurm.scancel(f"--name={name}", cluster=cluster)
    except AgentError as failure:
        return str(failure)
    return "" if said.code == 0 else said.words or f"scancel ended with code {said.code}"
