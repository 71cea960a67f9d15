"""Runs on a host that is reached by ssh, which a command has left behind there."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import potato_ray
from left_command import at_work, eventually, left, login_to
from ssh_lab import PLUGIN, SshLab
from sshd import ALIAS, Sshd, is_running
from whole_runs import MakeProject, folder_of, in_step, reader_of

from potato_ray.backends.remote_note import read_note
from potato_ray.config import ProjectConfig
from potato_ray.job.processes import marked
from potato_ray.registry.states import State

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
    return make_project(backends={"gpu": {"type": "ssh", "host": ALIAS, **keys}}, grace_seconds=5)


def cancelled(config: ProjectConfig, run_id: str) -> str:
    """What the command says that cancels a run."""
    told = potato_ray("training", "cancel", run_id, config.path)
    assert told.returncode == 0, told.stderr
    assert told.stdout == f"run {run_id}: cancelled\n"
    assert reader_of(config).run(run_id).state == State.CANCELLED
    return told.stderr


def left_there(run_id: str, remote_dir: Path) -> list[str]:
    """What of a run is left on the host: folders, workers, agents."""
    folders = [str(path) for path in remote_dir.glob(f"runs/{run_id}*")]
    return [*folders, *map(str, marked([f"POTATO_RAY_JOB={run_id}:1"])), *map(str, SshLab._agents(run_id))]


def test_what_ends_the_group_of_a_command_leaves_no_login(config: ProjectConfig, sshd: Sshd) -> None:
    with at_work(config, "gpu", in_step("rehearsing")):
        ssh, folder = login_to(sshd)
        assert folder.is_dir()
    assert eventually(lambda: not is_running(ssh) and not folder.exists())


def test_a_cancel_with_nobody_at_work_ends_the_run_on_its_host(config: ProjectConfig, tmp_path: Path) -> None:
    run_id = left(config, "gpu", in_step("rehearsing"), act="save")
    assert left_there(run_id, tmp_path)
    said = cancelled(config, run_id)
    assert left_there(run_id, tmp_path) == []
    assert f"cleared up on {ALIAS}" in said
    note = read_note(folder_of(config, run_id).path)
    assert note is not None
    assert note.cleared
    assert (folder_of(config, run_id).artifacts / "best.ckpt").is_file()


def test_a_host_that_is_away_is_cleared_up_by_the_next_run_there(
    config: ProjectConfig, sshd: Sshd, tmp_path: Path
) -> None:
    run_id = left(config, "gpu", in_step("rehearsing"))
    sshd.stop()
    said = cancelled(config, run_id)
    assert f"ssh to {ALIAS} failed" in said
    assert f"The next run of this project on {ALIAS} ends and removes what is left." in said
    assert left_there(run_id, tmp_path)
    sshd.start()
    what = ("--trainer", "rehearsal", "--schema", "sentiment", "--backend", "gpu")
    told = potato_ray("training", "run", config.path, *what)
    assert told.returncode == 0, told.stderr
    assert left_there(run_id, tmp_path) == []
