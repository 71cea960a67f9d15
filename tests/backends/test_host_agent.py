"""The agent of one run on a host: found again, its socket forwarded anew, a dead one replaced."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from fake_host import FakeDialogue, FakeHost, host_agent_on

from potato_ray.backends.accompanied import Talk
from potato_ray.backends.host_agent import ANOTHER_S, HostAgent
from potato_ray.backends.remote_note import RemoteNote, read_note, write_note
from potato_ray.errors import RunFailed
from potato_ray.host.agent_start import SECRETS_S
from potato_ray.job.folder import write_json
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.ssh import SshFailed


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


@pytest.mark.parametrize("is_noted", [False, True])
def test_an_agent_that_another_follower_is_letting_in_is_left_alone_and_followed_once_it_is_at_work(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch, is_noted: bool
) -> None:
    class Waiting(Talk):
        def wait(self, seconds: float) -> bool:
            assert host.agent is not None
            host.agent["at_work"] = host.does("take_up") > 1
            return False

    host.agent = {"alive": True, "at_work": False, "socket": "/tmp/potato-1/s"}
    second = host_agent_on(host, monkeypatch)
    second.noted.note = RemoteNote("gpu1", 1, "/r", "c0de", "/py", "/tmp/potato-1/s") if is_noted else None
    second.open(Waiting())
    assert (host.agent["alive"], host.agent["at_work"]) == (True, True)
    assert (host.does("run"), host.sent) == (0 if is_noted else 1, [])
    assert host.sockets == {"/tmp/potato-1/s"}


def test_an_agent_whose_secrets_were_ours_to_send_is_replaced_at_once(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = host_agent_on(host, monkeypatch)
    with monkeypatch.context() as cut:
        cut.setattr(FakeDialogue, "send_line", raising(SshFailed("ssh to gpu1 failed: cut")))
        with pytest.raises(SshFailed):
            made.open(Talk())
    assert host.agent is not None
    host.agent["at_work"] = False
    talk = Talk()
    monkeypatch.setattr(talk, "wait", raising(AssertionError("there is nobody to wait for")))
    made.open(talk)
    assert (host.does("take_up"), host.does("run"), len(host.sent)) == (1, 2, 1)


def test_an_agent_whose_run_was_told_to_its_end_meanwhile_gets_no_secrets(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = host_agent_on(host, monkeypatch)
    write_json(MirrorFolder(made.job.folder).result, {"attempt": 1})
    made.open(Talk())
    assert (host.sent, host.sockets) == ([], set())
    host.agent = None
    write_json(MirrorFolder(made.job.folder).result, {"attempt": 2})  # of another attempt
    made.open(Talk())
    assert len(host.sent) == 1


def test_a_run_that_another_follower_has_ended_is_not_started_again(
    host: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = host_agent_on(host, monkeypatch)
    note = RemoteNote("gpu1", 1, "/r", "c0de", "/py", "", cleared=True, outcome={"status": "cancelled"})
    write_note(made.job.folder, note)
    with pytest.raises(RunFailed, match="noted its end: cancelled"):
        made.open(Talk())
    assert host.sent == []
    assert read_note(made.job.folder) == note


def test_the_pauses_for_another_agent_are_longer_than_one_waits_for_its_secrets() -> None:
    assert sum(ANOTHER_S) > SECRETS_S


def raising(failure: Exception) -> Callable[..., None]:
    def raises(*_: object) -> None:
        raise failure

    return raises


def test_each_step_towards_an_agent_counts_as_progress_once(host: FakeHost, agent: HostAgent) -> None:
    assert (before := agent.progress) > 0
    agent.connect(Talk())
    assert host.agent is not None
    host.agent["alive"] = False
    agent.attach(Talk())
    assert agent.progress == before
