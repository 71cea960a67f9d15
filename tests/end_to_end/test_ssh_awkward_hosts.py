"""Whole runs on hosts that lack or refuse something: they work, or say what to do and leave nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from server_process import API
from small_disk import SmallDisk
from ssh_lab import PLUGIN, SshLab
from sshd import ALIAS, Sshd
from wheels import make_wheel
from whole_runs import ended, folder_of, projects

from potato_ray.backends.remote_note import read_note
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

NOWHERE = "/nowhere/hostware-1.2-py3-none-any.whl"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For what lies on the hosts."""
    return tmp_path_factory.mktemp("hosts")


@pytest.fixture(scope="module")
def lab(folder: Path) -> Iterator[SshLab]:
    """One server and its hosts: all are this machine, behind three sshd's."""
    with ExitStack() as stack:
        usual = stack.enter_context(Sshd())
        one_session = stack.enter_context(Sshd(extra="MaxSessions 1\n"))
        no_sockets = stack.enter_context(Sshd(extra="AllowStreamLocalForwarding no\n"))
        stranger = usual.host_block("stranger").replace(str(usual.key), str(another_key(folder)))
        others = one_session.host_block("one-session") + no_sockets.host_block("no-sockets")
        usual.configure(usual.host_block() + stranger + others)
        env = {"PYTHONPATH": str(PLUGIN)}
        shared = {
            "type": "ssh",
            "host": ALIAS,
            "python": sys.executable,
            "remote_dir": str(folder / "d"),
            "env": env,
        }
        backends = {
            **{name: {**shared, "host": name} for name in ("stranger", "one-session", "no-sockets")},
            "no-python": {**shared, "python": "python3.99"},
            "small": {**shared, "remote_dir": str(folder / "small")},
            "packages": {**shared, "packages": [str(make_wheel(folder))]},
            "bad-packages": {**shared, "packages": [NOWHERE]},
        }
        make_project = stack.enter_context(projects())
        with SshLab(usual, make_project, folder / "d", backends=backends, max_concurrent_runs=2) as lab:
            yield lab


def another_key(folder: Path) -> Path:
    """One that no host knows."""
    path = folder / "another"
    command = ("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(path))
    subprocess.run(command, check=True, timeout=20)
    return path


def failed(lab: SshLab, backend: str) -> Run:
    """A run on that backend, which has failed and has left nothing."""
    run = ended(lab.config, lab.start("succeed", backend=backend))
    assert run.state == State.ERROR, lab.log(run.run_id)
    assert lab.nothing_is_left(run.run_id)
    assert lab.reader.run_tokens() == []
    note = read_note(folder_of(lab.config, run.run_id).path)
    assert note is None or not note.socket or not Path(note.socket).parent.exists()
    return run


def refused(lab: SshLab, backend: str) -> str:
    """What the check of a backend says that it lacks."""
    report = lab.post(f"{API}/backends/{backend}/check", {})
    assert not report["ok"], report
    return " ".join(each["message"] for each in report["checks"] if not each["ok"])


def test_a_host_that_allows_one_session_a_connection_is_used(lab: SshLab) -> None:
    run = lab.succeeded(lab.start("succeed", backend="one-session"))
    assert (folder_of(lab.config, run.run_id).artifacts / "model.json").is_file()
    assert lab.nothing_is_left(run.run_id)


def test_a_python_that_is_not_there_is_named_by_run_and_check(lab: SshLab) -> None:
    run = failed(lab, "no-python")
    assert (run.error, run.error_code) == (f"python3.99 was not found on {ALIAS}.", "missing_dependency")
    assert f"python3.99 was not found on {ALIAS}" in refused(lab, "no-python")


def test_a_key_that_the_host_does_not_know_is_told_by_run_and_check(lab: SshLab) -> None:
    run = failed(lab, "stranger")
    assert run.error.startswith("ssh to stranger failed: Permission denied")
    assert run.error_code == "ssh_failed"
    assert "ssh to stranger failed: Permission denied" in refused(lab, "stranger")


def test_a_host_that_forwards_no_socket_refuses_with_the_next_step(lab: SshLab) -> None:
    run = failed(lab, "no-sockets")
    assert run.error.startswith("ssh to no-sockets failed: It refuses to forward a unix socket")
    assert "AllowStreamLocalForwarding" in run.error_next_step
    assert refused(lab, "no-sockets") == "ssh to no-sockets failed: It refuses to forward a unix socket"
    assert lab.post(f"{API}/backends/gpu/check", {})["ok"]


def test_a_full_disk_is_told_and_a_run_succeeds_once_there_is_space(lab: SshLab, folder: Path) -> None:
    (folder / "small").mkdir(exist_ok=True)
    with SmallDisk(folder / "small", 100) as disk:
        disk.fill()
        run = failed(lab, "small")
        assert run.error == f"The disk of remote_dir {folder / 'small'} on {ALIAS} is full."
        assert "0 MB are free there" in run.error_evidence
        assert "0 MB free" in refused(lab, "small")
        disk.free()
        lab.succeeded(lab.start("succeed", backend="small"))


def test_a_read_only_disk_is_told_by_run_and_check(lab: SshLab, folder: Path) -> None:
    (folder / "small").mkdir(exist_ok=True)
    with SmallDisk(folder / "small", 100) as disk, disk.read_only():
        run = failed(lab, "small")
        assert run.error == f"remote_dir {folder / 'small'} on {ALIAS} cannot be used."
        assert "Read-only file system" in run.error_evidence
        assert "Read-only file system" in refused(lab, "small")


def test_packages_are_installed_once_for_two_runs_at_a_time(lab: SshLab, folder: Path) -> None:
    ids = [lab.start("succeed", backend="packages") for _ in range(2)]
    for run_id in ids:
        lab.succeeded(run_id)
    logs = [lab.log(run_id) for run_id in ids]
    assert sum("building the environment" in log for log in logs) == 1, logs
    assert sum("Successfully installed hostware-1.2" in log for log in logs) == 1
    [module] = (folder / "d" / "environments").glob("*/lib/python*/site-packages/hostware.py")
    assert str(module.parents[4]) in logs[0]
    assert str(module.parents[4]) in logs[1]


def test_packages_that_cannot_be_installed_are_told_in_the_words_of_pip(lab: SshLab, folder: Path) -> None:
    run = failed(lab, "bad-packages")
    assert run.error.startswith(f"The packages of this backend could not be installed on {ALIAS}")
    assert run.error_code == "missing_dependency"
    assert "hostware-1.2" in run.error_evidence
    assert "No such file" in run.error_evidence
    assert NOWHERE in lab.log(run.run_id)
