"""The agent of one run on a host: found again, its socket forwarded anew, a dead one replaced."""

from __future__ import annotations

from pathlib import Path

import pytest
from fake_host import FakeHost, host_agent_on

from potato_ray.backends.accompanied import Talk
from potato_ray.backends.host_agent import AGENT_LIVES, HostAgent
from potato_ray.backends.host_dialogue import HostRefused
from potato_ray.job.folder import write_json
from potato_ray.mirror.folder import MirrorFolder


@pytest.fixture
def host(tmp_path: Path) -> FakeHost:
    return FakeHost(tmp_path)


@pytest.fixture
def agent(host: FakeHost, monkeypatch: pytest.MonkeyPatch) -> HostAgent:
    """At work."""
    made = host_agent_on(host, monkeypatch)
    made.open(Talk())
    return made


@pytest.mark.parametrize(("attempt", "given"), [(1, {"attempt": 1, "spec": {}}), (2, None)])
def test_a_job_that_lies_ready_goes_with_its_lease(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, attempt: int, given: dict[str, object] | None
) -> None:
    made = host_agent_on(host, monkeypatch)
    write_json(MirrorFolder(made.job.folder).job, {"attempt": attempt, "spec": {}})
    made.open(Talk())
    [line] = host.sent
    assert (line["lease"], line["job"]) == ("lease", given)


def test_an_agent_that_lives_keeps_its_way_home_though_the_login_is_the_same(
    host: FakeHost, agent: HostAgent
) -> None:
    host.channel_ended = True  # of the agent's channel alone
    agent.attach(Talk())
    assert host.sockets == {"/tmp/potato-1/s"}
    assert host.does("run") == 1


def test_the_channel_of_the_agent_before_is_no_word_on_the_next_one(host: FakeHost, agent: HostAgent) -> None:
    host.channel_ended = True
    assert agent.has_ended(Talk())
    agent.attach(Talk())
    assert not agent.has_ended(Talk())


def test_one_that_has_ended_is_replaced_and_its_forward_with_it(host: FakeHost, agent: HostAgent) -> None:
    assert host.agent is not None
    host.channel_ended, host.agent["alive"] = True, False
    agent.attach(Talk())
    assert "/tmp/potato-2/s" in host.sockets
    assert not agent.has_ended(Talk())


def test_the_way_in_lies_in_the_folder_that_goes_with_the_login(host: FakeHost, agent: HostAgent) -> None:
    assert (host.folder / "login-1" / "s").readlink() == host.folder / "agents.sock"
    agent.connect(Talk())
    agent.attach(Talk())
    assert (host.folder / "login-2" / "s").is_symlink()


def test_an_agent_that_another_follower_is_letting_in_is_left_alone_and_followed_once_it_is_at_work(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Waiting(Talk):
        def wait(self, seconds: float) -> bool:
            assert host.agent is not None
            host.agent["at_work"] = host.does("take_up") > 1
            return False

    host.agent = {"alive": True, "at_work": False, "socket": "/tmp/potato-1/s"}
    host.failing["run"] = lives = HostRefused("An agent is at r1.1 already.", code="backend_failed")
    lives.host_code = AGENT_LIVES
    host_agent_on(host, monkeypatch).open(Waiting())
    assert [request["end_waiting"] for request in host.asked if request["do"] == "take_up"] == [False] * 3
    assert host.sockets == {"/tmp/potato-1/s"}


def test_each_step_towards_an_agent_counts_as_progress_once(host: FakeHost, agent: HostAgent) -> None:
    assert (before := agent.progress) > 0
    agent.connect(Talk())
    assert host.agent is not None
    host.agent["alive"] = False
    agent.attach(Talk())
    assert agent.progress == before
