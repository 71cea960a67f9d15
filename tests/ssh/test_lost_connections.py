"""What becomes of a connection whose ssh, session, host, link or owner goes away."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from nat import SERVER, Nat
from sshd import Accounts, Sshd, descendants, is_running

from potato_ray.ssh import Connection, Destination, SshFailed

PATIENCE_S = 30.0


def eventually(happened: Callable[[], object], patience_s: float = PATIENCE_S) -> bool:
    ends_at = time.monotonic() + patience_s
    while not happened():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def cut(nat: Nat) -> Iterator[None]:
    """Every packet between the two is dropped, without a word to either."""
    rule = ("FORWARD", "-j", "DROP")
    subprocess.run([*nat.inside(nat.router), "iptables", "-I", *rule], check=True, timeout=20)
    try:
        yield
    finally:
        subprocess.run([*nat.inside(nat.router), "iptables", "-D", *rule], check=True, timeout=20)


def masters_of(pid: int) -> list[int]:
    """The foreground ssh processes below a process."""
    found = []
    for child in descendants(pid):
        with contextlib.suppress(OSError):  # it has just gone
            command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            if b"-M" in command and command[0].endswith(b"ssh"):
                found.append(child)
    return found


OWNER = """\
import sys
from potato_ray.ssh import Connection, Destination
connection = Connection.open(Destination("gpubox"))
channel = connection.start("echo $$; exec cat")
channel.wait_for_sentinel(30)
print(channel.read_line(30).decode(), connection._master.control_path, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def owner(host: Sshd) -> Iterator[subprocess.Popen[str]]:
    """Another process that has a connection."""
    process = subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    yield process
    process.kill()
    process.communicate(timeout=20)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_that_is_killed_leaves_no_ssh_and_no_folder(
    number: signal.Signals, owner: subprocess.Popen[str]
) -> None:
    assert owner.stdout is not None
    remote, control_path = owner.stdout.readline().split()
    below = descendants(owner.pid)
    assert len(masters_of(owner.pid)) == 1
    owner.send_signal(number)
    owner.wait(20)
    assert eventually(lambda: not any(is_running(pid) for pid in below))
    assert not Path(control_path).parent.exists()
    assert eventually(lambda: not is_running(int(remote))), "cat over there has seen no end of its input"


def test_a_process_that_ends_without_a_word_leaves_nothing_either(owner: subprocess.Popen[str]) -> None:
    assert owner.stdout is not None
    _, control_path = owner.stdout.readline().split()
    below = descendants(owner.pid)
    owner.communicate(timeout=30)
    assert eventually(lambda: not any(is_running(pid) for pid in below))
    assert not Path(control_path).parent.exists()


def test_the_folder_of_a_connection_is_private(connection: Connection) -> None:
    folder = Path(connection._master.control_path).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    assert len(connection._master.control_path) <= 90


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_ssh_ends_its_channels_and_nothing_connects_behind_our_back(
    number: signal.Signals, host: Sshd, connection: Connection
) -> None:
    with connection.start("exec cat") as channel:
        channel.wait_for_sentinel(30)
        logins = host.log.count("Accepted publickey")
        (master,) = masters_of(os.getpid())
        os.kill(master, number)
        assert channel.read(1, 30) == b""
        assert channel.wait(30) == 255
        assert eventually(lambda: not connection.is_alive)
        lost = channel.why_ended()
        assert lost.message == "ssh to gpubox failed: The connection was ended on this machine"
        with pytest.raises(SshFailed, match="The connection was ended on this machine"):
            connection.run("true", timeout_s=30)
        with pytest.raises(SshFailed, match="The connection was ended on this machine"):
            connection.forward("/tmp/prt-none/s", "/tmp/prt-none/l")
    assert host.log.count("Accepted publickey") == logins


def test_a_killed_keeper_leaves_no_ssh_once_the_connection_is_closed(host: Sshd) -> None:
    with Connection.open(Destination("gpubox")) as connection:
        (master,) = masters_of(os.getpid())
        connection._master._keeper.kill()
        assert eventually(lambda: not connection.is_alive)
    assert eventually(lambda: not is_running(master))


def test_a_killed_channel_leaves_the_connection_as_it_is(connection: Connection) -> None:
    with connection.start("exec cat") as channel:
        channel.wait_for_sentinel(30)
        channel.pipes.kill()
        assert channel.read(1, 30) == b""
    assert connection.run("echo well", timeout_s=30).out == b"well\n"


def test_a_host_that_ends_the_session_is_told_from_a_command_that_ends(
    sshd_with: Callable[..., Sshd],
) -> None:
    sshd = sshd_with()
    with Connection.open(Destination("gpubox")) as connection, connection.start("exec cat") as channel:
        channel.wait_for_sentinel(30)
        assert connection.lost() is None
        sshd.stop()
        assert channel.read(1, 30) == b""
        assert eventually(lambda: connection.lost() is not None)
        lost = connection.lost()
        assert lost is not None
        assert lost.message == "ssh to gpubox failed: The connection was closed from over there"
        assert lost.evidence.startswith("ssh says: ")
        assert channel.why_ended().message == lost.message


def test_a_command_whose_connection_ends_says_so(sshd_with: Callable[..., Sshd]) -> None:
    sshd = sshd_with()
    with Connection.open(Destination("gpubox")) as connection:
        script = "kill $PPID; sleep 60"
        with pytest.raises(SshFailed) as failure:
            connection.run(script, timeout_s=60)
    assert sshd.log
    assert failure.value.message == "ssh to gpubox failed: The connection was closed from over there"


def test_a_command_lives_on_without_a_signal_when_the_client_goes(host: Sshd, tmp_path: Path) -> None:
    trap = f"trap 'echo signal > {tmp_path}/trap' HUP TERM INT"
    script = f"{trap}; echo $$; cat > /dev/null; echo end > {tmp_path}/end"
    with Connection.open(Destination("gpubox")) as connection:
        channel = connection.start(script)
        channel.wait_for_sentinel(30)
        channel.read_line(30)
        connection.close()
        channel.close()
    assert eventually((tmp_path / "end").exists)
    assert not (tmp_path / "trap").exists()


def test_a_session_that_is_killed_ends_the_connection_and_a_killed_monitor_does_not(
    sshd_with: Callable[..., Sshd], accounts: Accounts
) -> None:
    sshd = sshd_with([accounts.with_shell("bash")])
    with Connection.open(Destination("gpubox")) as connection, connection.start("exec cat") as channel:
        channel.wait_for_sentinel(30)
        monitor, session, *_ = sshd.processes
        os.kill(monitor, signal.SIGKILL)
        channel.send(b"goes on\n", 20)
        assert channel.read_line(20) == b"goes on"
        os.kill(session, signal.SIGKILL)
        assert channel.read(1, 30) == b""
        assert channel.why_ended().message == (
            "ssh to gpubox failed: The connection was closed from over there"
        )


@pytest.fixture
def nat() -> Iterator[Nat]:
    with Nat() as network:
        yield network


@pytest.fixture
def far(nat: Nat, sshd_with: Callable[..., Sshd]) -> Sshd:
    """A host beyond a router, on which a link can be cut."""
    sshd = sshd_with(address=SERVER, port=2022, inside=nat.inside(nat.server))
    wrapper = sshd.bin / "ssh"
    inside = " ".join(nat.inside(nat.workstation))
    wrapper.write_text(wrapper.read_text().replace("exec ", f"exec {inside} "))
    return sshd


def test_a_link_that_is_cut_for_a_short_while_costs_nothing(far: Sshd, nat: Nat) -> None:
    slow_to_despair = Destination("gpubox", alive_interval_s=5)
    with Connection.open(slow_to_despair) as connection, connection.start("exec cat") as channel:
        channel.wait_for_sentinel(30)
        with cut(nat):
            channel.send(b"while it was cut\n", 10)
            with pytest.raises(SshFailed, match="It sent no line within 2 s"):
                channel.read_line(2)
        assert channel.read_line(30) == b"while it was cut"


def test_a_link_that_stays_cut_is_noticed_and_named(far: Sshd, nat: Nat) -> None:
    quick = Destination("gpubox", alive_interval_s=1)
    with Connection.open(quick) as connection, connection.start("exec cat") as channel:
        channel.wait_for_sentinel(30)
        with cut(nat):
            assert channel.read(1, 30) == b""
            assert eventually(lambda: connection.lost() is not None)
        lost = connection.lost()
    assert lost is not None
    assert lost.message == "ssh to gpubox failed: The connection was lost: it no longer answers"
    assert f"Timeout, server {SERVER} not responding." in lost.evidence


def test_an_order_over_a_dead_link_has_a_deadline(far: Sshd, nat: Nat) -> None:
    with Connection.open(Destination("gpubox", alive_interval_s=30)) as connection, cut(nat):
        with pytest.raises(SshFailed, match="It did not do `forward` within 2 s"):
            connection.forward("/tmp/prt-none/s", "/tmp/prt-none/l", timeout_s=2)
        began = time.monotonic()
        connection.close()
        assert time.monotonic() - began < 10


def test_a_host_behind_a_dead_link_is_named(far: Sshd, nat: Nat) -> None:
    with cut(nat), pytest.raises(SshFailed) as failure:
        Connection.open(Destination("gpubox", connect_timeout_s=2))
    assert failure.value.message == "ssh to gpubox failed: Connection timed out"


def test_a_host_without_a_way_to_it_is_named(far: Sshd) -> None:
    far.configure(far.host_block().replace(SERVER, "10.77.9.9") + "Host none\n  HostName ::5\n")
    with pytest.raises(SshFailed) as failure:
        Connection.open(Destination("none", connect_timeout_s=2))
    assert failure.value.message == "ssh to none failed: There is no way to it in the network"
