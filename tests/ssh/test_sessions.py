"""Hosts that allow few commands in one connection, or none."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sshd import Sshd

from potato_ray.ssh import Connection, Destination, SshFailed

LOGIN = "Accepted publickey"


def test_where_one_command_is_allowed_another_gets_a_login_of_its_own(sshd_with: Callable[..., Sshd]) -> None:
    sshd = sshd_with(extra="MaxSessions 1\n")
    with Connection.open(Destination("gpubox")) as connection, connection.start("echo one; cat") as first:
        first.wait_for_sentinel(30)
        with connection.start("echo two; cat") as second:
            second.wait_for_sentinel(30)
            second.send(b"and on\n", 20)
            assert [second.read_line(20), second.read_line(20)] == [b"two", b"and on"]
            assert connection.run("cat", input=b"three", timeout_s=30).out == b"three"
        assert first.read_line(20) == b"one"
        assert sshd.log.count(LOGIN) == 3
        # What a channel that has ended leaves free is used again.
        assert connection.run("echo four", timeout_s=30).out == b"four\n"
        assert sshd.log.count(LOGIN) == 3


def test_the_logins_beside_the_first_end_with_it(sshd_with: Callable[..., Sshd]) -> None:
    sshd = sshd_with(extra="MaxSessions 1\n")
    with Connection.open(Destination("gpubox")) as connection, connection.start("exec cat") as first:
        first.wait_for_sentinel(30)
        connection.run("true", timeout_s=30)
        assert sshd.log.count(LOGIN) == 2
    assert sshd.log.count("Connection closed") + sshd.log.count("Received disconnect") >= 1


def test_more_commands_at_once_than_the_usual_limit(sshd_with: Callable[..., Sshd]) -> None:
    sshd = sshd_with()
    with Connection.open(Destination("gpubox")) as connection:
        channels = [connection.start(f"echo {n}; exec cat") for n in range(12)]
        for channel in channels:
            channel.wait_for_sentinel(60)
        assert [channel.read_line(20) for channel in channels] == [b"%d" % n for n in range(12)]
        for channel in channels:
            channel.close()
    assert sshd.log.count(LOGIN) == 2


def test_files_also_get_a_login_of_their_own(sshd_with: Callable[..., Sshd]) -> None:
    sshd_with(extra="MaxSessions 1\n")
    with Connection.open(Destination("gpubox")) as connection, connection.start("exec cat") as first:
        first.wait_for_sentinel(30)
        with connection.sftp() as files:
            assert files.stat("/etc/passwd").st_size


def test_a_host_that_allows_no_command_is_named(sshd_with: Callable[..., Sshd]) -> None:
    sshd_with(extra="MaxSessions 0\n")
    with Connection.open(Destination("gpubox")) as connection:
        with pytest.raises(SshFailed) as failure:
            connection.run("true", timeout_s=30)
        assert failure.value.message == "ssh to gpubox failed: It refuses to run commands"
        assert "MaxSessions" in failure.value.next_step
        with pytest.raises(SshFailed, match="It refuses to run commands"):
            connection.sftp()
        assert connection._more == [], "a login that may run nothing is kept"
