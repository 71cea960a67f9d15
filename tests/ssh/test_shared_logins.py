"""One login, kept by one process and used by many: each comes and goes without the others noticing."""

from __future__ import annotations

import errno
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from sshd import Sshd

from potato_ray.ssh import Connection, Destination, SharedLogin, SshFailed

LOGIN = "Accepted publickey"
PATIENCE_S = 30.0
BOX = Destination("gpubox")


def eventually(happened: Callable[[], object]) -> bool:
    ends_at = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.02)
    return True


def refuses(remote: str | Path) -> bool:
    """Whether nobody listens at a forward's far end. ssh asks sshd to end it, and waits for no answer."""
    with socket.socket(socket.AF_UNIX) as far:
        return far.connect_ex(str(remote)) == errno.ECONNREFUSED


def kill_ssh_of(login: SharedLogin) -> None:
    """kill -9 of the ssh that is logged in."""
    [pid] = [
        int(entry.parent.name)
        for entry in Path("/proc").glob("[0-9]*/cmdline")
        if (words := entry.read_bytes().split(b"\0"))[0].endswith(b"ssh")
        and b"-M" in words
        and f"ControlPath={login.control_path}".encode() in words
    ]
    os.kill(pid, signal.SIGKILL)


@pytest.fixture
def sshd(sshd_with: Callable[..., Sshd], _no_folder_stays: None) -> Sshd:
    """An sshd of the test's own, whose log tells of its logins alone."""
    return sshd_with()


@pytest.fixture
def login(sshd: Sshd) -> Iterator[SharedLogin]:
    kept = SharedLogin(BOX)
    yield kept
    kept.close()


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short folder, as the ones on a host are."""
    made = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
    yield made
    shutil.rmtree(made)


class Way:
    """A run's way back: a forward from `remote` to a socket in the connection's own folder."""

    def __init__(self, line: Connection, remote: Path) -> None:
        self.line, self.remote = line, str(remote)
        self.local = str(line.folder / "s")
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(self.local)
        self._listening.listen()
        self._listening.settimeout(10)
        line.forward(self.remote, self.local)

    def is_open(self) -> bool:
        """Whether what is said at its far end comes out here."""
        with socket.socket(socket.AF_UNIX) as far:
            far.settimeout(10)
            far.connect(self.remote)
            far.sendall(b"hello")
            with self._listening.accept()[0] as near:
                return near.recv(5) == b"hello"

    def close(self) -> None:
        self._listening.close()


def test_ten_that_join_at_once_make_one_login(sshd: Sshd, login: SharedLogin) -> None:
    def used(number: int) -> bytes:
        with Connection.join(BOX, login.control_path) as line:
            return line.run(f"echo {number}", timeout_s=60).out

    with ThreadPoolExecutor(10) as pool:
        assert list(pool.map(used, range(10))) == [b"%d\n" % number for number in range(10)]
    assert sshd.log.count(LOGIN) == 1
    assert login.is_alive


def test_who_leaves_takes_only_his_own_along(sshd: Sshd, login: SharedLogin, folder: Path) -> None:
    leaving, staying = (Connection.join(BOX, login.control_path) for _ in range(2))
    ways = [Way(leaving, folder / "1"), Way(staying, folder / "2")]
    with staying, leaving.start("exec cat") as ended, staying.start("exec cat") as channel:
        ended.wait_for_sentinel(30)
        channel.wait_for_sentinel(30)
        assert [way.is_open() for way in ways] == [True, True]
        leaving.close()
        assert ended.read(1, 30) == b""
        assert eventually(lambda: refuses(ways[0].remote))
        assert ways[1].is_open()
        channel.send(b"goes on\n", 20)
        assert channel.read_line(20) == b"goes on"
        assert not leaving.is_alive
        assert not leaving.folder.exists()
    for way in ways:
        way.close()
    assert sshd.log.count(LOGIN) == 1


def test_files_and_long_answers_go_through_it_too(login: SharedLogin) -> None:
    with Connection.join(BOX, login.control_path) as line:
        with line.sftp() as files:
            assert files.stat("/etc/passwd").st_size
        assert len(line.run("head -c 1000000 /dev/zero", timeout_s=30).out) == 1_000_000


def test_its_end_is_seen_by_all_at_once_and_told_in_its_keepers_words(login: SharedLogin) -> None:
    asked = []

    def why(control_path: str) -> SshFailed | None:
        asked.append(control_path)
        return login.lost(10)

    lines = [Connection.join(BOX, login.control_path, why) for _ in range(3)]
    assert [line.lost() for line in lines] == [None] * 3
    kill_ssh_of(login)
    assert eventually(lambda: not any(line.is_alive for line in lines))
    assert not login.is_alive
    for line in lines:
        with pytest.raises(SshFailed, match="The connection was ended on this machine") as failure:
            line.run("true", timeout_s=30)
        assert "its process ended with code 137" in failure.value.evidence
        with pytest.raises(SshFailed, match="The connection was ended on this machine"):
            line.forward("/tmp/prt-none/s", "/tmp/prt-none/l")
        line.close()
    assert asked == [login.control_path] * 3


def test_a_host_that_ends_it_is_named(sshd: Sshd, login: SharedLogin) -> None:
    line = Connection.join(BOX, login.control_path, lambda _: login.lost(10))
    with line, line.start("exec cat") as channel:
        channel.wait_for_sentinel(30)
        sshd.stop()
        assert channel.read(1, 30) == b""
        assert channel.why_ended().message == (
            "ssh to gpubox failed: The connection was closed from over there"
        )


def test_without_its_keeper_an_end_has_words_of_our_own(login: SharedLogin) -> None:
    with Connection.join(BOX, login.control_path) as line:
        kill_ssh_of(login)
        assert eventually(lambda: not line.is_alive)
        lost = line.lost()
    assert lost is not None
    assert lost.message == "ssh to gpubox failed: The connection was ended on this machine"
    assert "whoever kept it has gone" in lost.evidence


def test_where_one_session_is_allowed_the_next_user_logs_in_himself(sshd_with: Callable[..., Sshd]) -> None:
    sshd = sshd_with(extra="MaxSessions 1\n")
    login = SharedLogin(BOX)
    first, second = (Connection.join(BOX, login.control_path) for _ in range(2))
    with first.start("exec cat") as channel:
        channel.wait_for_sentinel(30)
        assert second.run("echo two", timeout_s=30).out == b"two\n"
        assert sshd.log.count(LOGIN) == 2
        second.close()
        channel.send(b"goes on\n", 20)
        assert channel.read_line(20) == b"goes on"
    first.close()
    assert login.close_if_unused()


def test_a_socket_is_taken_over_from_a_user_who_died(login: SharedLogin, folder: Path) -> None:
    dead, living = (Connection.join(BOX, login.control_path) for _ in range(2))
    before = Way(dead, folder / "s")
    living.run(f"rm {folder}/s", timeout_s=30)
    way = Way(living, folder / "s")
    assert way.is_open()
    dead.close()  # as late as it can be: what is no longer his stays
    assert way.is_open()
    for each in (before, way):
        each.close()
    living.close()


def test_a_forward_can_be_ended_and_asked_for_again(login: SharedLogin, folder: Path) -> None:
    with Connection.join(BOX, login.control_path) as line:
        way = Way(line, folder / "s")
        line.cancel_forward(way.remote, way.local)
        line.cancel_forward(way.remote, way.local)
        line.run(f"rm {folder}/s", timeout_s=30)
        line.forward(way.remote, way.local)
        assert way.is_open()
        way.close()


def test_a_use_keeps_it_and_it_ends_without_one(login: SharedLogin) -> None:
    assert not login.is_used
    with Connection.join(BOX, login.control_path) as line:
        assert login.is_used
        assert not login.close_if_unused()
        assert line.run("echo well", timeout_s=30).out == b"well\n"
    assert not login.is_used
    assert login.close_if_unused()
    assert not login.is_alive
    with pytest.raises(SshFailed, match="The login that its runs share has just ended"):
        Connection.join(BOX, login.control_path)


def test_one_that_is_busy_for_a_moment_lives(login: SharedLogin, monkeypatch: pytest.MonkeyPatch) -> None:
    def busy(control_path: str) -> socket.socket:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr("potato_ray.ssh.shared_login.connect", busy)
    assert login.is_alive
    kill_ssh_of(login)
    assert eventually(lambda: not login.is_alive)


def test_one_whose_file_of_users_was_tidied_away_is_none_to_be_joined(login: SharedLogin) -> None:
    (Path(login.control_path).parent / "u").unlink()
    with pytest.raises(SshFailed, match="has just ended"):
        Connection.join(BOX, login.control_path)
    assert not login.is_alive


USER = """\
import sys
from potato_ray.ssh import Connection, Destination
line = Connection.join(Destination("gpubox"), sys.argv[1])
print("joined", flush=True)
sys.stdin.read()
"""


def test_a_user_who_is_killed_uses_it_no_longer(login: SharedLogin) -> None:
    command = [sys.executable, "-c", USER, login.control_path]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as user:
        assert user.stdout is not None
        assert user.stdout.readline() == "joined\n"
        assert login.is_used
        user.kill()
        user.wait(20)
    assert not login.is_used
    assert login.is_alive


OWNER = """\
import sys
from potato_ray.ssh import Destination, SharedLogin
login = SharedLogin(Destination("gpubox"))
print(login.control_path, flush=True)
sys.stdin.read()
"""


def test_a_keeper_who_is_killed_takes_it_along_and_leaves_nothing(sshd: Sshd) -> None:
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        control_path = owner.stdout.readline().strip()
        line = Connection.join(BOX, control_path)
        (line.folder / "s").symlink_to("/tmp/prt-none/agents.sock")
        owner.kill()
        owner.wait(20)
    assert eventually(lambda: not line.is_alive)
    assert eventually(lambda: not Path(control_path).parent.exists())
    line.close()


def test_who_waits_for_the_host_is_freed_by_a_close(login: SharedLogin) -> None:
    line = Connection.join(BOX, login.control_path)
    told: list[BaseException] = []

    def wait() -> None:
        try:
            line.run("echo $$ > /dev/null; sleep 600", timeout_s=500)
        except SshFailed as failure:
            told.append(failure)

    waiting = threading.Thread(target=wait)
    waiting.start()
    assert eventually(lambda: bool(line._under_way))
    line.close()
    waiting.join(20)
    assert not waiting.is_alive()
    assert login.is_alive
    with pytest.raises(SshFailed):
        line.run("true", timeout_s=5)


def test_who_has_left_forwards_nothing_more(login: SharedLogin, folder: Path) -> None:
    line = Connection.join(BOX, login.control_path)
    line.close()
    with pytest.raises(SshFailed, match="The connection was closed meanwhile"):
        line.forward(f"{folder}/s", f"{folder}/l")
    line.cancel_forward(f"{folder}/s", f"{folder}/l")
    line.close()
    assert not (folder / "s").exists()


def test_a_forward_that_comes_to_be_while_its_user_leaves_is_ended(login: SharedLogin, folder: Path) -> None:
    line = Connection.join(BOX, login.control_path)
    order = line._master.order

    def late(name: str, *arguments: str, timeout_s: float = 20.0) -> tuple[int, str]:
        if name == "forward":
            line.close()
        return order(name, *arguments, timeout_s=timeout_s)

    line._master.order = late  # type: ignore[method-assign]
    with pytest.raises(SshFailed, match="The connection was closed meanwhile"):
        line.forward(f"{folder}/s", f"{folder}/l")
    assert eventually(lambda: refuses(f"{folder}/s"))
