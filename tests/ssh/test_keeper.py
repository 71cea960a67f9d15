"""The keeper ends an ssh that does not want to end, whatever becomes of its owner."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sshd import Sshd, descendants, is_running

from potato_ray.ssh import Connection, Destination, SshTimeout, keeper
from potato_ray.ssh.control_folder import control_path

STUBBORN = """\
import os, signal, sys, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
open(os.path.join(sys.argv[1], "begun"), "w").close()
time.sleep(600)
"""


@pytest.fixture
def stubborn(tmp_path: Path) -> tuple[str, ...]:
    """A command that no SIGTERM ends. It says, by a file in its folder, that it has begun."""
    script = tmp_path / "stubborn.py"
    script.write_text(STUBBORN)
    (tmp_path / "folder").mkdir()
    return (sys.executable, "-I", "-S", str(script), str(tmp_path / "folder"))


def keep(command: tuple[str, ...], folder: Path, parent: int) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-I", "-S", keeper.__file__, str(parent), str(folder), *command]
    return subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for(happened: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 30
    while not happened():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def kill_at_once(*pids: int) -> None:
    """End processes of which none sees the end of another one."""
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for pid in pids:
            os.kill(pid, number)


@pytest.mark.parametrize("how", ["the input ends", "a signal"])
def test_a_stubborn_ssh_is_killed(how: str, stubborn: tuple[str, ...], tmp_path: Path) -> None:
    with keep(stubborn, tmp_path / "folder", os.getpid()) as process:
        wait_for((tmp_path / "folder" / "begun").exists)
        *_, ssh = descendants(process.pid)
        if how == "a signal":
            process.send_signal(signal.SIGTERM)
        else:
            assert process.stdin is not None
            process.stdin.close()
        assert process.wait(30) == 128 + signal.SIGKILL
    assert not is_running(ssh)
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize("killed", ["the watcher", "the keeper", "both"])
def test_ssh_ends_though_what_holds_it_is_killed(
    killed: str, stubborn: tuple[str, ...], tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    with keep(stubborn, folder, os.getpid()) as process:
        wait_for((folder / "begun").exists)
        watcher, (holder, ssh) = process.pid, descendants(process.pid)
        kill_at_once(*{"the watcher": [watcher], "the keeper": [holder], "both": [watcher, holder]}[killed])
        assert process.wait(30) in (-signal.SIGKILL, 128 + signal.SIGKILL)
        wait_for(lambda: not is_running(ssh))
    # Nobody of them is left to remove it where both are killed: the next login does.
    wait_for(lambda: folder.exists() == (killed == "both"))


def test_the_next_login_removes_what_is_left_of_one_whose_keeper_was_killed(
    host: Sshd,
) -> None:
    with Connection.open(Destination("gpubox")) as first:
        watcher = first._master._keeper  # type: ignore[attr-defined]
        holder, ssh, *_ = descendants(watcher.pid)
        kill_at_once(watcher.pid, holder)
        wait_for(lambda: not is_running(ssh))
        assert control_path(first.folder).exists()
        with Connection.open(Destination("gpubox")):
            assert not first.folder.exists()


def test_an_owner_that_has_gone_already_is_noticed_though_the_pipe_is_held(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    # Another process may have got the other end of the pipe by a fork.
    with keep(("/bin/sleep", "600"), tmp_path / "folder", parent=1) as process:
        assert process.wait(30) == 128 + signal.SIGTERM
    assert not (tmp_path / "folder").exists()


@pytest.mark.parametrize(("command", "code"), [(("/bin/sh", "-c", "exit 7"), 7), (("/nope/ssh",), 127)])
def test_the_keeper_ends_as_ssh_does(command: tuple[str, ...], code: int, tmp_path: Path) -> None:
    with keep(command, tmp_path / "folder", os.getpid()) as process:
        assert process.wait(30) == code
        assert process.stderr is not None
        words = process.stderr.read()
    assert (b"No such file" in words) == (code == 127)


def test_what_ssh_started_ends_with_it(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    script = f"sleep 600 & echo $! > {tmp_path}/pid; wait"
    with keep(("/bin/sh", "-c", script), tmp_path / "folder", os.getpid()) as process:
        wait_for(lambda: (tmp_path / "pid").exists() and bool((tmp_path / "pid").read_text().strip()))
        process.communicate(timeout=30)
    assert not is_running(int((tmp_path / "pid").read_text()))


def test_the_folder_goes_though_others_remove_and_add_at_the_same_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "r1").mkdir()
    files = [tmp_path / name for name in ("c", "u", "r1/s")]
    for file in files:
        file.touch()
    unlink, added = os.unlink, iter([tmp_path / "r1" / "late"])

    def unlink_too_late(path: str) -> None:
        unlink(path)
        for file in added:
            file.touch()
        raise FileNotFoundError(path)

    monkeypatch.setattr(os, "unlink", unlink_too_late)
    keeper._remove(str(tmp_path))
    assert not tmp_path.exists()


def test_an_ssh_that_hangs_is_given_up(
    stubborn: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(f'#!/bin/sh\n[ "$1" = -V ] && exit\nexec {" ".join(stubborn)}\n')
    ssh.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    with pytest.raises(SshTimeout, match="It did not log in within 2 s"):
        Connection.open(Destination("gpubox", connect_timeout_s=1.0))
    assert not [pid for pid in descendants(os.getpid()) if b"stubborn" in command_of(pid)]


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""
