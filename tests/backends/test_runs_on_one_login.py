"""Runs that share a login: none ends it for the others, and after a cut all go on over the next one."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from fake_host import FakeHost, host_agent_on
from listening import Listener, left_by, lose_after_five
from ssh_place import SshSite

from potato_ray.backends.accompanied import Talk
from potato_ray.backends.base import Outcome
from potato_ray.backends.host_agent import HostAgent
from potato_ray.backends.ssh import SshBackend
from potato_ray.ssh import Connection, Destination, SharedLogin, SshFailed

LOGIN = "Accepted publickey"
PATIENCE_S = 40.0


def eventually(happened: Callable[[], object]) -> bool:
    ends_at = time.monotonic() + PATIENCE_S
    while not happened():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.05)
    return True


class OneLogin:
    """Keeps a login for all who ask, and makes another when it was lost; what an adapter does."""

    def __init__(self) -> None:
        self.kept: SharedLogin | None = None
        self._lock = threading.Lock()

    def __call__(self, destination: Destination, stop: Callable[[], bool]) -> Connection:
        with self._lock:
            if self.kept is None or not self.kept.is_alive:
                self.close()
                self.kept = SharedLogin(destination, stop)
            return Connection.join(destination, self.kept.control_path, self._why)

    def _why(self, control_path: str) -> SshFailed | None:
        kept = self.kept
        return kept.lost(2.0) if kept is not None and kept.control_path == control_path else None

    def close(self) -> None:
        if self.kept is not None:
            self.kept.close()

    def cut(self) -> None:
        """kill -9 of its ssh."""
        assert self.kept is not None
        wanted = f"ControlPath={self.kept.control_path}".encode()
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):
                words = entry.read_bytes().split(b"\0")
                if words[0].endswith(b"ssh") and b"-M" in words and wanted in words:
                    os.kill(int(entry.parent.name), signal.SIGKILL)


@pytest.fixture
def shared() -> Iterator[OneLogin]:
    login = OneLogin()
    yield login
    login.close()


def sharing(site: SshSite, login: OneLogin) -> SshBackend:
    """A backend whose runs go through that login."""
    made = site.backend()
    assert made._means is not None
    made._means = replace(made._means, login=login)
    return made


class Runs:
    """Runs under way on a host, each followed in a thread and waiting for a word."""

    def __init__(self, site: SshSite, login: OneLogin, n_runs: int) -> None:
        self.site = site
        self.jobs = [site.make_job("wait") for _ in range(n_runs)]
        self.heard = [Listener() for _ in self.jobs]
        self._pool = ThreadPoolExecutor(n_runs)
        pairs = zip(self.jobs, self.heard, strict=True)
        self.ends: list[Future[Outcome]] = [
            self._pool.submit(sharing(site, login).execute, job, heard) for job, heard in pairs
        ]

    @property
    def are_training(self) -> bool:
        return all(len(heard.steps) >= 5 for heard in self.heard)

    def close(self) -> None:
        for job in self.jobs:
            self.site.let_go(job)
        self._pool.shutdown()
        for job in self.jobs:
            self.site.clear_up(job)


@contextmanager
def under_way(site: SshSite, login: OneLogin, n_runs: int) -> Iterator[Runs]:
    runs = Runs(site, login, n_runs)
    try:
        assert eventually(lambda: runs.are_training), [heard.events for heard in runs.heard]
        yield runs
    finally:
        runs.close()


def outcomes(ends: Sequence[Future[Outcome]]) -> list[str]:
    return [end.result(PATIENCE_S).status for end in ends]


def logs_of(heard: Listener) -> str:
    return " ".join(str(note.get("message", "")) for note in heard.notes)


def test_three_runs_take_one_login_and_an_end_is_nobody_elses(host: SshSite, shared: OneLogin) -> None:
    before = host.sshd.log.count(LOGIN)
    with under_way(host, shared, 3) as runs:
        host.let_go(runs.jobs[0])
        assert outcomes(runs.ends[:1]) == ["success"]
        assert shared.kept is not None
        assert shared.kept.is_alive
        assert not any(end.done() for end in runs.ends[1:])
        for job in runs.jobs[1:]:
            host.let_go(job)
        assert outcomes(runs.ends) == ["success"] * 3
        assert host.sshd.log.count(LOGIN) - before == 1
        assert not shared.kept.is_used
        assert not any("lost" in logs_of(heard) for heard in runs.heard)


def test_a_cut_costs_one_new_login_for_all_and_no_run(host: SshSite, shared: OneLogin) -> None:
    before = host.sshd.log.count(LOGIN)
    with under_way(host, shared, 3) as runs:
        shared.cut()
        assert eventually(lambda: all("connected to gpubox again" in logs_of(heard) for heard in runs.heard))
        for job in runs.jobs:
            host.let_go(job)
        assert outcomes(runs.ends) == ["success"] * 3
        assert host.sshd.log.count(LOGIN) - before == 2
        for heard in runs.heard:
            assert heard.steps == list(range(10))
            assert "The connection was ended on this machine" in logs_of(heard)


def test_who_follows_after_a_follower_that_died_uses_the_login_that_stands(
    host: SshSite, shared: OneLogin, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = host.sshd.log.count(LOGIN)
    died: list[HostAgent] = []
    job, heard = host.make_job("wait"), Listener()
    with monkeypatch.context() as dying:
        # All that it had stays as it was: its channel, its forward, its folder.
        dying.setattr(HostAgent, "close", lambda agent: died.append(agent))
        left_by(sharing(host, shared), job, Listener(lose_after_five))
    with ThreadPoolExecutor(1) as pool:
        end = pool.submit(sharing(host, shared).execute, job, heard)
        assert eventually(lambda: "it is followed again" in logs_of(heard) or end.done())
        for agent in died:
            agent.close()  # it took no more than its own along, however late
        host.let_go(job)
        assert end.result(PATIENCE_S).status == "success"
    assert "it is followed again" in logs_of(heard)
    assert host.sshd.log.count(LOGIN) - before == 1
    host.clear_up(job)


def test_a_run_logs_in_as_its_means_say(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    alone, shared = FakeHost(tmp_path), FakeHost(tmp_path)
    agent = host_agent_on(alone, monkeypatch)
    means = replace(agent.means, login=shared.open)  # type: ignore[arg-type]
    HostAgent(agent.job, agent.name, agent.settings, means).open(Talk())
    assert (alone.logins, shared.logins) == (0, 1)
