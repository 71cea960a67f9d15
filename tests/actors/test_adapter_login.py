"""Runs share one login under a real Ray, and lose nothing but time when the adapter keeping it is killed."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from sshd import Sshd

from potato_ray.actors.adapter_login import AdapterLogin
from potato_ray.actors.session import Session
from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Cancelled
from potato_ray.ssh import Channel, Connection, Destination, SshFailed

pytestmark = pytest.mark.ray

BOX = Destination("gpubox")
LOGIN = "Accepted publickey"
PATIENCE_S = 30.0


class Site:
    """A session beside a login node; `login` is what each run of a backend has."""

    def __init__(self, session: Session, sshd: Sshd) -> None:
        self.session = session
        self.sshd = sshd

    def login(self, backend: str = "cluster") -> AdapterLogin:
        def adapter_for(destination: Destination) -> Any:
            return self.session.call("slurm_adapter", backend, destination)

        return AdapterLogin(adapter_for)


def eventually(happened: Callable[[], object]) -> bool:
    ends_at = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.05)
    return True


def never() -> bool:
    return False


def keeper_of(line: Connection) -> int:
    """The process that keeps the login which a connection has joined."""
    folder = os.fsencode(Path(line._master.control_path).parent)
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = entry.read_bytes().split(b"\0")
            if folder in words:
                return int(words[words.index(folder) - 1])
    raise AssertionError("nobody keeps it")


def answers(line: Connection) -> bool:
    return line.run("echo well", timeout_s=60).out == b"well\n"


def talking(line: Connection) -> Channel:
    """A channel that stays."""
    channel = line.start("cat")
    channel.wait_for_sentinel(60)
    return channel


@pytest.fixture
def site(config: ProjectConfig, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    with Sshd() as sshd:
        sshd.use(monkeypatch)
        with Session(config, "a test", warm=False) as session:
            yield Site(session, sshd)


def test_ten_runs_share_a_login_and_find_another_when_its_adapter_is_killed(site: Site) -> None:
    logins = [site.login() for _ in range(10)]
    with ThreadPoolExecutor(10) as pool, contextlib.ExitStack() as left_open:
        first = list(pool.map(lambda login: login(BOX, never), logins))
        assert all(pool.map(answers, first))
        assert site.sshd.log.count(LOGIN) == 1
        os.kill(keeper_of(first[0]), signal.SIGKILL)
        assert eventually(lambda: not any(line.is_alive for line in first))
        lost = first[0].lost()
        assert lost is not None
        assert lost.message == "ssh to gpubox failed: The connection was ended on this machine"
        for line in first:
            line.close()
        again = list(pool.map(lambda login: login(BOX, never), logins))
        for line in again:
            left_open.callback(line.close)
        assert all(pool.map(answers, again))
        assert site.sshd.log.count(LOGIN) == 2
        assert eventually(lambda: not Path(first[0]._master.control_path).parent.exists())
        site.session.close()
        assert eventually(lambda: not Path(again[0]._master.control_path).parent.exists())


def test_what_ssh_says_comes_from_the_adapter_and_a_stop_ends_the_wait(site: Site) -> None:
    line = site.login()(BOX, never)
    site.sshd.stop()
    assert eventually(lambda: not line.is_alive)
    lost = line.lost()
    line.close()
    assert lost is not None
    assert lost.message == "ssh to gpubox failed: The connection was closed from over there"
    with pytest.raises(SshFailed, match="ssh to gpubox failed: Connection refused"):
        site.login()(BOX, never)
    site.sshd.configure(site.sshd.host_block(more="  ProxyCommand sleep 60"))
    with pytest.raises(Cancelled, match="given up on request"):
        site.login("another")(BOX, lambda: True)


def test_runs_that_find_the_login_full_share_those_made_beside_it(site: Site) -> None:
    with ThreadPoolExecutor(25) as pool, contextlib.ExitStack() as left_open:
        lines = list(pool.map(lambda login: login(BOX, never), [site.login() for _ in range(25)]))
        for line in lines:
            left_open.callback(line.close)
        channels = list(pool.map(talking, lines))
        for channel in channels:
            left_open.callback(channel.close)
        # 25 sessions at a time, of which the host takes ten in a login.
        assert site.sshd.log.count(LOGIN) == 3
