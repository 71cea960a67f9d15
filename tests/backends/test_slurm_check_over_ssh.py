"""The check on a login node behind a real sshd: what is found there, and by which PATH."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from ssh_place import SshSite
from sshd import ALIAS

from potato_ray.backends.base import CheckReport
from potato_ray.backends.slurm import SlurmBackend
from potato_ray.backends.slurm_check import COMMANDS
from potato_ray.backends.slurm_settings import SlurmSettings
from potato_ray.ssh import Destination


@pytest.fixture
def commands(tmp_path: Path) -> Path:
    """A folder with SLURM's commands, which is on no PATH."""
    for name in COMMANDS:
        (tmp_path / name).touch(0o755)
    return tmp_path


def checked(host: SshSite, env: Mapping[str, str], python: str = sys.executable) -> CheckReport:
    settings = SlurmSettings(
        Destination(ALIAS), python=python, remote_dir=str(host.remote_dir), env=env, keys={"gres": "gpu:1"}
    )
    return SlurmBackend("cluster", settings).check()


def test_commands_are_found_where_env_says_that_they_are(host: SshSite, commands: Path) -> None:
    report = checked(host, {"PATH": str(commands)})
    assert report.ok, report
    assert report.facts["commands"] == {name: str(commands / name) for name in COMMANDS}
    assert report.facts["path"] == str(commands)
    assert {check.name for check in report.checks} >= {"ssh", "socket", "slurm", "python", "disk"}


def test_a_login_node_without_them_is_told_in_these_words(host: SshSite, tmp_path: Path) -> None:
    report = checked(host, {"PATH": str(tmp_path)})
    failed = [check.message for check in report.checks if not check.ok]
    assert failed[0] == f"{ALIAS} has no sbatch on PATH, so it cannot submit jobs"
    assert len(failed) == 3


def test_a_check_leaves_nothing_on_the_login_node(host: SshSite, commands: Path) -> None:
    checked(host, {"PATH": str(commands)})
    assert not host.remote_dir.exists()


def test_an_interpreter_that_is_not_there_is_named(host: SshSite) -> None:
    report = checked(host, {}, python="/nonexistent/python")
    assert not report.ok
    assert "/nonexistent/python was not found" in report.checks[0].message
