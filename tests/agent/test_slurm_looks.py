"""One squeue an interval for all jobs, however many agents follow them."""

from __future__ import annotations

import os
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
from clocks import Clock
from fake_slurm import DOWN, FakeSlurm
from slurm_scene import SlurmScene

from potato_ray.agent.file_lock import FileLock
from potato_ray.agent.slurm.commands import TIMEOUT_S, Slurm, SlurmAway
from potato_ray.agent.slurm.looks import Look, Looks, folder_name
from potato_ray.agent.slurm.states import NOT_SEEN


class LoginNode:
    """A shared folder, a SLURM and a clock for all agents of a test."""

    def __init__(self, tmp_path: Path) -> None:
        self.fake = FakeSlurm(tmp_path / "fake")
        self.shared = tmp_path / "shared"
        self.clock = Clock()

    def agent(self) -> Looks:
        return Looks(Slurm(self.fake.env, base={}, host="login1"), self.shared, 10.0, clock=self.clock)

    def asked_for(self) -> list[str]:
        """The ids in each squeue so far."""
        return [arguments[arguments.index("-j") + 1] for arguments in self.fake.arguments("squeue")]

    def state(self, agent: Looks, key: str) -> str | None:
        seen = agent.look(key)
        return seen.state if seen is not None else None


@pytest.fixture
def node(tmp_path: Path) -> LoginNode:
    return LoginNode(tmp_path)


def test_a_look_says_how_a_job_stands(node: LoginNode) -> None:
    node.fake.job("7", "PENDING", "Priority")
    seen = node.agent().look("7")
    assert seen is not None
    assert (seen.state, seen.reason, seen.nodes, seen.at) == ("PENDING", "Priority", "", node.clock.now)
    assert node.fake.arguments("squeue") == [["-h", "-t", "all", "-o", "%i|%T|%r|%N", "-j", "7"]]


def test_squeue_is_asked_once_an_interval_for_all_agents_together(node: LoginNode) -> None:
    agents = {str(number): node.agent() for number in range(10, 18)}
    for key in agents:
        node.fake.job(key, "RUNNING", nodes="n1")
    for _ in range(40):
        for key, agent in agents.items():
            agent.look(key)
        node.clock.sleep(0.5)
    asked = node.asked_for()
    assert len(asked) == 2
    assert asked[1] == ",".join(agents)
    assert {node.state(agent, key) for key, agent in agents.items()} == {"RUNNING"}


def test_a_job_that_nobody_has_looked_for_yet_waits_for_the_next_look(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    node.agent().look("7")
    node.fake.job("8", "PENDING")
    agent = node.agent()
    assert agent.look("8") == NOT_SEEN
    node.clock.sleep(10.0)
    assert node.state(agent, "8") == "PENDING"
    assert node.asked_for() == ["7", "7,8"]


def test_two_agents_whose_turn_comes_at_once_ask_once(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    take, one, other = FileLock.try_to_take, node.agent(), node.agent()

    def late(lock: FileLock) -> bool:
        monkeypatch.undo()
        other.look("7")
        return take(lock)

    monkeypatch.setattr(FileLock, "try_to_take", late)
    node.fake.job("7", "RUNNING")
    assert node.state(one, "7") == "RUNNING"
    assert len(node.asked_for()) == 1


def test_a_look_from_before_the_clock_was_put_back_is_no_news(node: LoginNode) -> None:
    agent = node.agent()
    agent.look("7")
    node.fake.job("7", "RUNNING")
    node.clock.sleep(-3600.0)
    assert node.state(node.agent(), "7") == "RUNNING"
    assert node.state(agent, "7") == "RUNNING"
    assert len(node.asked_for()) == 2


def test_finished_jobs_that_slurm_remembers_are_seen(node: LoginNode) -> None:
    node.fake.job("7", "TIMEOUT", "TimeLimit", "n1")
    seen = node.agent().look("7")
    assert seen is not None
    assert seen.final


def test_a_job_is_forgotten_only_when_it_was_missing_twice(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    agent = node.agent()
    agent.look("7")
    node.fake.job("7")
    node.clock.sleep(10.0)
    assert node.state(agent, "7") == "RUNNING"
    node.clock.sleep(10.0)
    assert agent.look("7") is None
    assert node.agent().look("7") is None


def test_unknown_jobs_among_known_ones_are_missing_too(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    one, other = node.agent(), node.agent()
    for _ in range(3):
        one.look("7")
        other.look("99")
        node.clock.sleep(10.0)
    assert (node.state(one, "7"), other.look("99")) == ("RUNNING", None)


def test_a_job_that_is_back_is_not_forgotten(node: LoginNode) -> None:
    agent = node.agent()
    agent.look("7")
    node.fake.job("7", "PENDING")
    node.clock.sleep(10.0)
    assert node.state(agent, "7") == "PENDING"


def test_a_slurm_that_is_away_is_not_asked_again_within_the_interval(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    node.fake.answers("squeue", code=1, err=f"slurm_load_jobs error: {DOWN}\n")
    for agent in (node.agent(), node.agent()):
        with pytest.raises(SlurmAway, match="squeue on login1"):
            agent.look("7")
    assert len(node.asked_for()) == 1


def test_being_away_shows_no_absence(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    agent = node.agent()
    agent.look("7")
    for words in (DOWN, "something new", DOWN):
        node.clock.sleep(10.0)
        node.fake.answers("squeue", code=1, err=f"slurm_load_jobs error: {words}\n")
        with pytest.raises(SlurmAway):
            agent.look("7")
    node.fake.job("7")
    node.clock.sleep(10.0)
    assert node.state(agent, "7") == "RUNNING"


def test_while_another_agent_asks_the_last_look_stands(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    agent = node.agent()
    agent.look("7")
    node.clock.sleep(60.0)
    lock = FileLock(node.shared / "looks.lock")
    assert lock.try_to_take()
    with lock:
        assert node.state(agent, "7") == "RUNNING"
    assert len(node.asked_for()) == 1


def test_an_agent_that_hangs_while_it_asks_keeps_the_others_waiting_for_so_long_only(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    agent, lock = node.agent(), FileLock(node.shared / "looks.lock")
    agent.look("7")
    node.fake.job("7", "TIMEOUT", "TimeLimit", "n1")
    with lock:
        assert lock.try_to_take()
        seen = []
        for _ in range(21):
            node.clock.sleep(10.0)
            seen.append(node.state(agent, "7"))
        assert seen == ["RUNNING"] * 18 + ["TIMEOUT"] * 3
        node.clock.sleep(10.0)
        node.agent().look("7")
    assert len(node.asked_for()) == 5


LONG_S = 2 * TIMEOUT_S + 3 * 10.0
"""After which an agent takes the place of one that hangs."""


def test_of_many_that_have_waited_for_an_agent_that_hangs_one_takes_its_place(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = node.agent(), node.agent()

    def while_the_second_looks(*seen: Any) -> Look:
        second.look("8")
        assert node.asked_for() == []
        return asked(*seen)

    asked = first._asked
    monkeypatch.setattr(first, "_asked", while_the_second_looks)
    node.shared.mkdir()
    lock = FileLock(node.shared / "looks.lock")
    with lock:
        assert lock.try_to_take()
        first.look("7")
        second.look("8")
        node.clock.sleep(LONG_S)
        first.look("7")
    assert len(node.asked_for()) == 1


def test_an_agent_whose_place_was_taken_tells_nothing_that_is_old_by_then(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = node.agent(), node.agent()

    def while_somebody_takes_over(*seen: Any) -> Look:
        answer = asked(*seen)
        (node.shared / "looks.lock").unlink()
        node.fake.job("7", "COMPLETED", nodes="n1")
        assert node.state(second, "7") == "COMPLETED"
        return answer

    node.fake.job("7", "RUNNING", nodes="n1")
    asked = first._asked
    monkeypatch.setattr(first, "_asked", while_somebody_takes_over)
    first.look("7")
    assert node.state(node.agent(), "7") == "COMPLETED"


def test_others_that_ask_again_and_again_are_no_agent_that_hangs(node: LoginNode) -> None:
    agent, other = node.agent(), node.agent()
    lock = FileLock(node.shared / "looks.lock")
    for n_asked in range(1, 25):
        other.look("8")
        agent.look("7")
        node.clock.sleep(10.0)
        with lock:
            assert lock.try_to_take()
            agent.look("7")
        assert len(node.asked_for()) == n_asked


@pytest.mark.parametrize(
    "content", ["", "{}", "[]", '{"v": 2, "at": "x"}', '{"v": 9}', '{"v": 2, "at": 1e18}']
)
def test_a_cache_that_cannot_be_read_is_written_anew(node: LoginNode, content: str) -> None:
    node.fake.job("7", "RUNNING")
    node.shared.mkdir(parents=True)
    (node.shared / "looks.json").write_text(content)
    assert node.state(node.agent(), "7") == "RUNNING"
    node.agent().look("7")
    assert len(node.asked_for()) == 1


def test_a_look_that_cannot_be_shared_is_kept_to_all_the_same(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError("no space")

    monkeypatch.setattr("potato_ray.agent.slurm.looks.write_json", full)
    node.fake.job("7", "RUNNING")
    agent = node.agent()
    assert [node.state(agent, "7") for _ in range(5)] == ["RUNNING"] * 5
    assert len(node.asked_for()) == 1


def test_a_job_that_its_agent_is_done_with_is_not_asked_for(node: LoginNode) -> None:
    one, other = node.agent(), node.agent()
    one.look("7")
    other.look("8")
    other.forget("8")
    other.forget("8")
    node.clock.sleep(10.0)
    one.look("7")
    assert node.asked_for() == ["7", "7"]


def test_a_job_whose_agent_died_is_not_asked_for_for_ever(node: LoginNode) -> None:
    agent = node.agent()
    node.agent().look("8")
    left = node.shared / "jobs" / "8"
    os.utime(left, (left.stat().st_mtime - 121.0,) * 2)
    node.clock.sleep(10.0)
    agent.look("7")
    assert node.asked_for()[-1] == "7"
    assert not left.exists()


def test_a_job_whose_agent_died_before_the_clock_was_put_back_hides_no_other(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    agent = node.agent()
    node.agent().look("8")
    left = node.shared / "jobs" / "8"
    os.utime(left, (left.stat().st_mtime + 600.0,) * 2)
    node.clock.sleep(10.0)
    assert node.state(agent, "7") == "RUNNING"
    assert node.asked_for()[-1] == "7"
    assert not left.exists()


def test_who_asks_asks_for_its_own_job_also_where_its_file_was_removed_meanwhile(node: LoginNode) -> None:
    agent = node.agent()
    node.agent().look("8")
    node.clock.sleep(5.0)
    agent.look("7")
    (node.shared / "jobs" / "7").unlink()
    node.clock.sleep(5.0)
    agent.look("7")
    assert node.asked_for() == ["8", "7,8"]


def test_a_file_server_may_have_another_time_than_the_login_node(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch = Path.touch

    def an_hour_behind(path: Path, mode: int = 0o666) -> None:
        touch(path, mode)
        os.utime(path, (time.time() - 3600.0,) * 2)

    monkeypatch.setattr(Path, "touch", an_hour_behind)
    agents = {key: node.agent() for key in ("7", "8")}
    for key, agent in agents.items():
        agent.look(key)
        node.clock.sleep(10.0)
    assert node.asked_for() == ["7", "7,8"]


@pytest.mark.parametrize("name", ["²", "٧", "7;", "7 ", ".nfs000000000000007", "7.swp", "notes"])
def test_what_else_lies_among_the_jobs_is_passed_over(node: LoginNode, name: str) -> None:
    node.fake.job("7", "RUNNING")
    agent = node.agent()
    agent.look("7")
    (node.shared / "jobs" / name).touch()
    node.clock.sleep(10.0)
    assert node.state(agent, "7") == "RUNNING"
    assert node.asked_for() == ["7", "7"]


def test_a_shared_folder_that_was_removed_does_not_come_back(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    agent = node.agent()
    agent.look("7")
    shutil.rmtree(node.shared)
    node.clock.sleep(10.0)
    with pytest.raises(FileNotFoundError):
        agent.look("7")
    assert not node.shared.exists()


def test_each_cluster_is_asked_for_its_own_jobs(node: LoginNode) -> None:
    node.fake.job("7", "RUNNING")
    agents = {key: node.agent() for key in ("9;far", "7", "8;far")}
    (node.shared / "jobs").mkdir(parents=True)
    for key, agent in agents.items():
        agent.look(key)
        node.clock.sleep(10.0)
    asked = [(arguments[:2], arguments[-1]) for arguments in node.fake.arguments("squeue")[-2:]]
    assert asked == [(["-h", "-t"], "7"), (["-M", "far"], "8,9")]


def test_a_cluster_that_is_away_hides_no_job_of_another_one(node: LoginNode) -> None:
    near, far = node.agent(), node.agent()
    node.fake.job("7", "PENDING")
    near.look("7")
    assert far.look("8;far") == NOT_SEEN
    node.clock.sleep(10.0)
    node.fake.answers("squeue", out="7|RUNNING|None|n1\n")
    node.fake.answers("squeue", code=1, err=f"slurm_load_jobs error: {DOWN}\n")
    assert node.state(near, "7") == "RUNNING"
    with pytest.raises(SlurmAway, match="squeue on login1"):
        far.look("8;far")
    assert node.state(node.agent(), "7") == "RUNNING"
    assert len(node.asked_for()) == 3


def test_agents_share_looks_where_they_ask_the_same_slurm(tmp_path: Path) -> None:
    scene = SlurmScene(tmp_path)
    scene.submitted("PENDING")
    [looks] = tmp_path.glob("*/looks.json")
    env = {**scene.fake.env, "HF_HOME": "/shared", "SLURM_JWT": "x"}
    assert looks.parent.name == folder_name("login1", env)


@pytest.mark.parametrize(
    "other",
    [
        ("login2", {"PATH": "/slurm/bin"}),
        ("login1", {"PATH": "/other/bin"}),
        ("login1", {"PATH": "/slurm/bin", "SLURM_CONF": "/other/slurm.conf"}),
        ("login1", {"PATH": "/slurm/bin", "SLURM_CONF_SERVER": "other"}),
        ("login1", {"PATH": "/slurm/bin", "SLURM_CLUSTERS": "other"}),
    ],
)
def test_agents_that_ask_another_slurm_share_no_looks(other: tuple[str, dict[str, str]]) -> None:
    assert folder_name(*other) != folder_name("login1", {"PATH": "/slurm/bin"})


@pytest.mark.parametrize("change", ["its name", "its SLURM_CONF"])
def test_another_machine_of_that_name_may_ask_another_slurm(
    monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    before = folder_name("login1", {})
    if change == "its name":
        monkeypatch.setattr("socket.gethostname", lambda: "node.of.another.cluster")
    else:
        monkeypatch.setenv("SLURM_CONF", "/other/slurm.conf")
    assert folder_name("login1", {}) != before


def test_many_jobs_are_asked_for_in_several_commands(
    node: LoginNode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potato_ray.agent.slurm.looks.AT_ONCE", 2)
    for key in "12345":
        node.agent().look(key)
    node.clock.sleep(10.0)
    node.agent().look("1")
    assert node.asked_for() == ["1", "1,2", "3,4", "5"]
