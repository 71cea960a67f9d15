"""Runs on a host that is reached by ssh, which a command has left behind there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from left_command import at_work, eventually, login_to
from ssh_lab import PLUGIN
from sshd import ALIAS, Sshd, is_running
from whole_runs import MakeProject, in_step

from potato_ray.config import ProjectConfig

pytestmark = pytest.mark.ray


@pytest.fixture
def sshd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Sshd]:
    with Sshd() as running:
        running.use(monkeypatch)
        yield running


@pytest.fixture
def config(sshd: Sshd, make_project: MakeProject, tmp_path: Path) -> ProjectConfig:
    """A project with a host."""
    keys = {"python": sys.executable, "remote_dir": str(tmp_path), "env": {"PYTHONPATH": str(PLUGIN)}}
    return make_project(backends={"gpu": {"type": "ssh", "host": ALIAS, **keys}})


def test_what_ends_the_group_of_a_command_leaves_no_login(config: ProjectConfig, sshd: Sshd) -> None:
    with at_work(config, "gpu", in_step("rehearsing")):
        ssh, folder = login_to(sshd)
        assert folder.is_dir()
    assert eventually(lambda: not is_running(ssh) and not folder.exists())
