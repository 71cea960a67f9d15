"""Runs on a real SLURM, which a command has left behind there."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from left_command import at_work, eventually, login_to
from slurm_cluster import SlurmCluster
from ssh_lab import PLUGIN
from sshd import ALIAS, Sshd, is_running
from whole_runs import MakeProject, in_step

from potato_ray.config import ProjectConfig

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
    """A project whose backend `cpu` starts its jobs at once."""
    keys = {
        "type": "slurm",
        "host": ALIAS,
        "python": sys.executable,
        "remote_dir": str(shared),
        "mem": "400M",
        "poll_interval_s": 1,
        "env": {"PYTHONPATH": str(PLUGIN), **slurm.env},
    }
    return make_project(backends={"cpu": keys})


def test_what_ends_the_group_of_a_command_leaves_no_login(config: ProjectConfig, sshd: Sshd) -> None:
    with at_work(config, "cpu", in_step("rehearsing")):
        ssh, folder = login_to(sshd)
        assert folder.is_dir()
    assert eventually(lambda: not is_running(ssh) and not folder.exists())
