"""Disks on a host that are full, read-only, or run no programs: each is told of in words."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_at_work import offer
from forwarded import Forwarded
from host_talk import secrets_for
from parts import missing
from small_disk import SmallDisk
from wheels import make_wheel


@pytest.fixture
def disk(one_host) -> Iterator[SmallDisk]:
    """A small disk that remote_dir lies on."""
    one_host.remote_dir.mkdir()
    with SmallDisk(one_host.remote_dir, 48) as small:
        yield small


def test_a_start_on_a_full_disk_is_refused_with_the_disk_named(one_host, disk) -> None:
    disk.fill()
    talk = one_host.ask("run")
    talk.line()
    data = one_host.archive.path.read_bytes()
    talk.send_line({"archive_bytes": len(data)})
    talk.send(data)
    error = talk.line()["error"]
    assert error["code"] == "disk_full"
    assert error["message"] == f"The disk of remote_dir {one_host.remote_dir} on gpubox is full."
    assert sorted(path.name for path in (one_host.remote_dir / "code").iterdir()) == [".lock"]


def test_a_disk_with_less_space_than_is_asked_for_is_refused_before_a_copy(one_host, disk) -> None:
    error = one_host.ask("run", min_free_disk_mb=500).line()["error"]
    assert error["code"] == "disk_full"
    assert "500 are needed" in error["evidence"]


def test_a_run_on_a_disk_that_is_full_by_then_fails_in_words(one_host, disk, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    talk = one_host.run()
    ready = talk.line_with("ready")
    with Forwarded(ready["socket"], server.port):
        disk.fill(leave_kb=16)
        talk.send_line(secrets_for(ready["socket"], server.token))
        assert talk.line_with("end")["how"] in ("delivered", "dropped")
        talk.ended()
    assert told.result["failure"]["code"] == "backend_failed"


def test_model_files_come_from_a_full_disk_and_it_can_be_cleared_up(one_host, disk, tmp_path) -> None:
    one_host.send_code(one_host.ask("take_up"))
    (one_host.job / "artifacts").mkdir(parents=True)
    (one_host.job / "artifacts" / "model").write_bytes(b"weights")
    disk.fill()
    talk = one_host.ask("send_artifacts")
    one_host.send_code(talk)
    assert talk.line()["artifacts"]["files"][0]["path"] == "model"
    assert one_host.request("clear_up")["cleared"]["problem"] == ""


def test_a_read_only_remote_dir_is_named_by_a_probe_and_refused_by_a_start(one_host, disk) -> None:
    with disk.read_only():
        told = one_host.ask("probe").line()["facts"]
        assert told["problem"] == f"{one_host.remote_dir}: Read-only file system"
        error = one_host.ask("run").line()["error"]
    assert error["code"] == "remote_dir_unusable"
    assert error["message"] == f"remote_dir {one_host.remote_dir} on gpubox cannot be used."
    assert "Read-only file system" in error["evidence"]


@pytest.fixture
def noexec(one_host, disk) -> Path:
    """A remote_dir whose disk runs no programs."""
    remount = ["mount", "-o", "remount,bind,noexec", str(one_host.remote_dir)]
    if subprocess.run(remount, capture_output=True, timeout=20).returncode != 0:
        missing("nothing can be mounted noexec here")
    return one_host.remote_dir


def test_a_run_needs_no_program_on_the_disk_of_remote_dir(one_host, noexec, server, tmp_path) -> None:
    told = offer(server, tmp_path)
    assert one_host.ask("probe").line()["facts"]["noexec"]
    talk = one_host.run()
    ready = talk.line_with("ready")
    with Forwarded(ready["socket"], server.port):
        talk.send_line(secrets_for(ready["socket"], server.token))
        talk.line_with("end")
    assert told.result["exit"]["code"] == 0


def test_packages_on_a_disk_that_runs_no_programs_are_refused(one_host, noexec, tmp_path) -> None:
    error = one_host.run(packages=[str(make_wheel(tmp_path))]).line_with("error")
    assert error["code"] == "packages_failed"
    assert "noexec" in error["message"]
