"""Runs on a real SLURM, which a command has left behind there."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import potato_ray
from left_command import at_work, eventually, left, login_to
from slurm_cluster import SlurmCluster
from ssh_lab import PLUGIN
from sshd import ALIAS, Sshd, is_running
from whole_runs import MakeProject, in_step, reader_of

from potato_ray.config import ProjectConfig
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray


@pytest.fixture
def sshd(module_slurm: SlurmCluster, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    """A login node."""
    with Sshd(env={**module_slurm.env, "PATH": "/usr/local/bin:/usr/bin:/bin"}) as running:
        running.use(monkeypatch)
        yield running


@pytest.fixture
def shared() -> Iterator[Path]:
    """Storage that login and compute nodes share; below /tmp it would count as each node's own."""
    with tempfile.TemporaryDirectory(prefix=".prt-", dir=Path.home()) as folder:
        yield Path(folder)


@pytest.fixture
def config(sshd: Sshd, shared: Path, slurm: SlurmCluster, make_project: MakeProject) -> ProjectConfig:
    """A project whose backend `cpu` starts its jobs at once, while those of `held` wait."""
    keys = {
        "type": "slurm",
        "host": ALIAS,
        "python": sys.executable,
        "remote_dir": str(shared),
        "mem": "400M",
        "poll_interval_s": 1,
        "env": {"PYTHONPATH": str(PLUGIN), **slurm.env},
    }
    return make_project(backends={"cpu": keys, "held": {**keys, "sbatch_args": ["--hold"]}}, grace_seconds=5)


def test_what_ends_the_group_of_a_command_leaves_no_login(config: ProjectConfig, sshd: Sshd) -> None:
    with at_work(config, "cpu", in_step("rehearsing")):
        ssh, folder = login_to(sshd)
        assert folder.is_dir()
    assert eventually(lambda: not is_running(ssh) and not folder.exists())


@pytest.mark.parametrize(("backend", "step"), [("cpu", "rehearsing"), ("held", "JobHeldUser")])
def test_a_cancel_with_nobody_at_work_ends_the_job(
    config: ProjectConfig, slurm: SlurmCluster, shared: Path, backend: str, step: str
) -> None:
    run_id = left(config, backend, lambda run: step in run.step)
    assert jobs(slurm)
    told = potato_ray("training", "cancel", run_id, config.path)
    assert (told.returncode, told.stdout) == (0, f"run {run_id}: cancelled\n"), told.stderr
    assert f"cleared up on {ALIAS}" in told.stderr
    assert reader_of(config).run(run_id).state == State.CANCELLED
    assert list((shared / "runs").iterdir()) == []
    assert eventually(lambda: not jobs(slurm))


def jobs(slurm: SlurmCluster) -> list[str]:
    """The ids of the jobs that wait or run."""
    return slurm.ask("squeue", "--noheader", "--format=%A").split()
