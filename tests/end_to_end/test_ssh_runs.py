"""Whole runs on a host that the server logs in to, through a real sshd."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from server_process import API
from ssh_lab import SshLab
from sshd import Sshd
from whole_runs import ended, folder_of, in_step, projects, wait_until

from potato_ray.registry.states import State

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshLab]:
    """One server and one host for the tests of this module."""
    remote_dir = tmp_path_factory.mktemp("host") / "training"
    with Sshd() as sshd, projects() as make_project, SshLab(sshd, make_project, remote_dir) as lab:
        yield lab


def test_a_run_on_a_host_is_scored_and_its_model_comes_home(lab: SshLab) -> None:
    run = lab.succeeded(lab.start())
    assert run.headline is not None
    assert len(list(lab.reader.predictions(run.run_id))) > 0
    artifacts = folder_of(lab.config, run.run_id).artifacts
    assert (artifacts / "model.skops").is_file()
    assert (artifacts / "predictions.jsonl").is_file()
    assert run.artifact_uri == ""
    assert lab.nothing_is_left(run.run_id)
    assert lab.reader.run_tokens() == []
    log = lab.log(run.run_id)
    assert "gpubox: Python 3." in log
    assert "were copied from gpubox" in log


def test_a_cancel_reaches_the_worker_on_the_host(lab: SshLab) -> None:
    run_id = lab.start("wait")
    wait_until(lab.config, run_id, in_step("rehearsing"))
    lab.post(f"{API}/runs/{run_id}/cancel", {})
    assert ended(lab.config, run_id).state == State.CANCELLED
    assert lab.nothing_is_left(run_id)


def test_a_run_goes_on_after_kill_9_of_its_agent(lab: SshLab) -> None:
    run_id = lab.start("wait")
    wait_until(lab.config, run_id, in_step("rehearsing"))
    os.kill(lab.agent_pid(run_id), signal.SIGKILL)
    wait_until(lab.config, run_id, lambda run: "it is started again" in lab.log(run_id))
    lab.go(run_id)
    lab.succeeded(run_id)
    assert lab.nothing_is_left(run_id)


def test_a_run_goes_on_after_its_ssh_session_was_ended(lab: SshLab) -> None:
    run_id = lab.start("wait")
    wait_until(lab.config, run_id, in_step("rehearsing"))
    lab.sshd.end_sessions()
    wait_until(lab.config, run_id, lambda run: "connected to gpubox again" in lab.log(run_id))
    lab.go(run_id)
    lab.succeeded(run_id)
    assert lab.nothing_is_left(run_id)


def test_a_run_goes_on_after_kill_9_of_the_server(lab: SshLab) -> None:
    run_id = lab.start("wait")
    wait_until(lab.config, run_id, in_step("rehearsing"))
    lab.restart()
    lab.go(run_id)
    lab.succeeded(run_id)
    assert lab.nothing_is_left(run_id)
    lab.succeeded(lab.start("succeed"))


def test_no_token_is_seen_on_the_host_or_in_the_project(lab: SshLab) -> None:
    run_id = lab.start("wait")
    wait_until(lab.config, run_id, in_step("rehearsing"))
    [sent] = [each for each in lab.reader.run_tokens() if each.run_id == run_id]
    assert sent.backend == "gpu"
    commands = [path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline")]
    assert not any(b"prt_" in command for command in commands)
    for top in (lab.config.task_dir, lab.remote_dir):
        files = [path for path in top.rglob("*") if path.is_file()]
        assert [path for path in files if b"prt_" in path.read_bytes()] == []
    lab.go(run_id)
    lab.succeeded(run_id)
