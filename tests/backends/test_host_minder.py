"""Minding the way to a host: trouble there is told, and ends a run only where its agent is gone for good."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from clocks import Clock
from fake_host import FakeHost, host_agent_on

from potato_ray.backends import host_minder
from potato_ray.backends.accompanied import Talk
from potato_ray.backends.base import Directive
from potato_ray.backends.host_agent import HostAgent
from potato_ray.backends.host_dialogue import HostRefused
from potato_ray.backends.host_minder import HostMinder
from potato_ray.backends.ssh_run import HostFollowing
from potato_ray.ssh import SshFailed

DISK = HostRefused("There is no space left on gpu1.", evidence="/r: 3 MB free", code="backend_failed")
MANY = 40


class Looks(Talk):
    """A talk that lets a minder look so often, and does not wait."""

    def __init__(self, looks: int = MANY) -> None:
        super().__init__()
        self._looks = looks

    def wait(self, seconds: float) -> bool:
        self._looks -= 1
        return self._looks < 0

    def said(self) -> list[str]:
        return [note["message"] for note in self.taken() if note["kind"] == "log"]


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


@pytest.fixture
def agent(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> HostAgent:
    made = host_agent_on(host, monkeypatch)
    made.open(Talk())
    return made


def minded(agent: HostAgent, talk: Talk, is_over: Callable[[], bool] = lambda: False) -> HostMinder:
    """A minder that has looked as often as the talk lets it, ten seconds between two looks."""
    minder = HostMinder(agent, talk, is_over, clock=itertools.count(0, 20).__next__)
    minder._mind()
    return minder


def found_again(agent: HostAgent) -> None:
    """Have no channel of the agent, as after another login: the host is asked whether it lives."""
    agent.attach(Talk())
    assert not agent.holds_channel


def host_ends_agent(host: FakeHost, minder: HostMinder) -> None:
    assert host.agent is not None
    host.channel_ended, host.agent["alive"] = True, False
    minder._look()


def test_a_host_that_refuses_a_question_keeps_its_run_and_is_told_of_once(
    host: FakeHost, agent: HostAgent
) -> None:
    found_again(agent)
    host.failing["take_up"] = DISK
    talk = Looks()
    assert minded(agent, talk).gone is None
    assert host.does("take_up") > 3
    assert talk.said() == ["There is no space left on gpu1. /r: 3 MB free"]


def test_an_agent_that_is_heard_of_is_not_asked_for(host: FakeHost, agent: HostAgent) -> None:
    found_again(agent)
    asked, silent_s = host.does("take_up"), [host_minder.SILENT_S - 0.1]
    clock = itertools.count(0, 20).__next__
    minder = HostMinder(agent, Looks(), lambda: False, clock=clock, silent_s=lambda: silent_s[0])
    minder._mind()
    assert host.does("take_up") == asked
    minder._talk, silent_s[0] = Looks(), host_minder.SILENT_S
    minder._mind()
    assert host.does("take_up") > asked


@pytest.mark.parametrize("failure", [OSError(28, "No space left on device"), KeyError("socket")])
def test_trouble_of_any_kind_does_not_end_the_minding(
    host: FakeHost, agent: HostAgent, failure: Exception
) -> None:
    found_again(agent)
    host.failing["take_up"] = failure
    minder = minded(agent, Looks())
    assert host.does("take_up") > 3
    assert minder.gone is None
    assert type(failure).__name__ in minder.trouble


def test_an_agent_that_is_gone_is_started_again_some_times_before_the_run_fails_of_it(
    host: FakeHost, agent: HostAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host.agent is not None
    host.channel_ended, host.agent["alive"] = True, False
    host.failing["run"] = DISK
    monkeypatch.setattr(host_minder, "SETTLE_S", 0.0)
    assert minded(agent, Looks()).gone is DISK
    assert host.does("run") == 1 + host_minder.MAX_FAILED_STARTS


def test_a_start_that_is_refused_for_a_while_only_costs_nothing_but_time(
    host: FakeHost, agent: HostAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert host.agent is not None
    host.channel_ended, host.agent["alive"] = True, False
    host.failing["run"] = DISK
    monkeypatch.setattr(host_minder, "SETTLE_S", 0.0)
    minder = HostMinder(agent, Looks(2), lambda: False, clock=itertools.count(0, 20).__next__)
    minder._mind()
    del host.failing["run"]
    minder._talk = Looks()
    minder._mind()
    assert (minder.gone, minder.trouble) == (None, "")
    assert agent.holds_channel


def test_an_agent_that_ends_at_once_is_started_again_twice(
    host: FakeHost, agent: HostAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_minder, "SETTLE_S", 0.0)
    clock = Clock()
    minder = HostMinder(agent, Looks(), lambda: False, clock)
    for _ in range(3):
        assert minder.gone is None
        clock.sleep(host_minder.STEADY_S)  # nobody has heard of the agent meanwhile
        host_ends_agent(host, minder)
    assert minder.gone is not None
    assert minder.gone.message == "The agent on gpu1 ended before the run did, again and again."


@pytest.mark.parametrize("shows", ["its channel", "its words"])
def test_an_agent_that_ends_each_night_is_started_again_each_time(
    host: FakeHost, agent: HostAgent, monkeypatch: pytest.MonkeyPatch, shows: str
) -> None:
    monkeypatch.setattr(host_minder, "SETTLE_S", 0.0)
    clock = Clock()
    silent_s = {"its channel": math.inf, "its words": 60.0}[shows]
    minder = HostMinder(agent, Looks(), lambda: False, clock, silent_s=lambda: silent_s)
    for _ in range(7):
        clock.sleep(host_minder.STEADY_S + 60.0)
        if shows == "its channel":
            minder._look()
        host_ends_agent(host, minder)
    assert minder.gone is None
    assert host.does("run") == 1 + 7


def test_a_login_that_was_followed_by_trouble_is_not_taken_for_a_way_home(
    host: FakeHost, agent: HostAgent
) -> None:
    line: Any = agent.connection.line
    line.close()
    host.failing["take_up"] = DISK
    minder = HostMinder(agent, Looks(4), lambda: False, clock=itertools.count(0, 20).__next__)
    minder._mind()
    assert host.sockets == set()
    del host.failing["take_up"]
    minder._talk = Looks()
    minder._mind()
    assert host.sockets == {"/tmp/potato-1/s"}


def test_why_the_host_cannot_be_reached_again_is_told_once_and_kept(host: FakeHost, agent: HostAgent) -> None:
    line: Any = agent.connection.line
    line.close()
    host.refuses_logins = SshFailed("ssh to gpu1 failed: Permission denied", evidence="ssh says: publickey")
    talk = Looks()
    minder = minded(agent, talk)
    assert minder.trouble == "ssh to gpu1 failed: Permission denied ssh says: publickey"
    assert talk.said().count(minder.trouble) == 1
    assert minder.gone is None


def test_a_run_that_is_lost_shows_why_its_host_could_not_be_reached_again(agent: HostAgent) -> None:
    minder = HostMinder(agent, Looks(), lambda: False)
    how = {"name": "gpu", "heartbeat_timeout_s": 120.0}
    following = HostFollowing(agent.job, lambda *_: Directive(), minder, Looks(), **how)
    assert following._lost().evidence == "It had sent 0 events."
    minder.trouble = "ssh to gpu1 failed: Permission denied"
    assert following._lost().evidence == "It had sent 0 events. ssh to gpu1 failed: Permission denied"
