"""SFTP through the connection that is there."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from sshd import Account, Sshd

from potato_ray.ssh import Connection, Destination, SshFailed

BODY = bytes(range(256)) * 40_000


def test_files_come_and_go_to_the_byte(connection: Connection, tmp_path: Path) -> None:
    (tmp_path / "source").write_bytes(BODY)
    with connection.sftp() as files:
        files.get(str(tmp_path / "source"), str(tmp_path / "got"))
        files.put(str(tmp_path / "source"), str(tmp_path / "put"))
        assert sorted(files.listdir(str(tmp_path))) == ["got", "put", "source"]
        with pytest.raises(FileNotFoundError):
            files.stat(str(tmp_path / "none"))
    assert (tmp_path / "got").read_bytes() == BODY
    assert (tmp_path / "put").read_bytes() == BODY


def test_a_command_and_files_share_one_login(host: Sshd, connection: Connection) -> None:
    before = host.log.count("Accepted publickey")
    with connection.sftp() as files:
        assert connection.run("echo beside", timeout_s=20).out == b"beside\n"
        assert files.stat("/etc/passwd").st_size
    assert host.log.count("Accepted publickey") == before


def test_a_host_that_falls_silent_is_given_up_and_closing_does_not_wait_again(
    sshd_with: Callable[..., Sshd], tmp_path: Path
) -> None:
    sshd = sshd_with()
    with Connection.open(Destination("gpubox")) as connection, connection.sftp(stall_s=5.0) as files:
        opened = files.open("/etc/passwd")
        stopped = list(sshd.processes)
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            with pytest.raises(TimeoutError, match="the host sent nothing for 5 s"):
                opened.read()
            began = time.monotonic()
            with pytest.raises(TimeoutError, match="the host sent nothing for 5 s"):
                files.stat("/etc/passwd")
            opened.close()
            assert time.monotonic() - began < 4
        finally:
            for pid in stopped:
                os.kill(pid, signal.SIGCONT)


def test_files_over_a_connection_that_has_ended_fail_at_once(connection: Connection) -> None:
    files = connection.sftp()
    connection.close()
    with pytest.raises(Exception, match=r"Server connection dropped|has ended"):
        files.stat("/etc/passwd")
    files.close()


def test_a_noisy_start_up_file_is_named_where_sftp_is_a_program(
    bash: Account, sshd_with: Callable[..., Sshd]
) -> None:
    (bash.home / ".bashrc").write_text("echo Welcome to the lab\n")
    sshd = sshd_with([bash])
    sshd.rewrite("internal-sftp", "/usr/lib/openssh/sftp-server")
    with Connection.open(Destination("gpubox")) as connection:
        with pytest.raises(SshFailed, match="Its SFTP is disturbed") as failure:
            connection.sftp()
        assert ".bashrc" in failure.value.next_step
        assert connection.run("echo well", timeout_s=20).out == b"well\n"


def test_a_host_without_sftp_is_named(sshd_with: Callable[..., Sshd]) -> None:
    sshd = sshd_with()
    sshd.rewrite("Subsystem sftp internal-sftp", "")
    with Connection.open(Destination("gpubox")) as connection, pytest.raises(SshFailed) as failure:
        connection.sftp()
    assert failure.value.message == "ssh to gpubox failed: It has no SFTP"


def test_who_uses_no_files_does_not_load_paramiko() -> None:
    program = "import sys, potato_ray.ssh; print('paramiko' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "False\n"
