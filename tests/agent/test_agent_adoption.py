"""An agent that is killed at some moment, and the next one in its workdir that comes to a true end."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agent_at_work import AgentAtWork, AgentToKill, offer
from protocol_server import HANG, LOST, ProtocolServer

from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.job.folder import JobFolder, write_json
from potato_ray.job.processes import is_alive

Work = Callable[..., AgentAtWork]
Start = Callable[[], AgentToKill]


@pytest.fixture
def doomed(server: ProtocolServer, tmp_path: Path) -> Iterator[Start]:
    """Starts an agent that will be killed, in the workdir of `work`."""
    started: list[AgentToKill] = []

    def start() -> AgentToKill:
        started.append(AgentToKill(server, tmp_path / "work"))
        return started[-1]

    yield start
    for agent in started:
        agent.kill()


def test_a_job_that_was_claimed_and_not_answered_is_given_to_the_next_agent(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("claim", LOST, HANG)
    first = doomed()
    server.wait_for(lambda: server.requests.count("claim") == 2)
    first.kill()
    work().join()
    assert told.result is not None
    assert len({claim["lease"] for claim in server.claims}) == 1


@pytest.mark.parametrize("route", ["code", "bundle"])
def test_a_job_whose_agent_died_while_it_fetched_is_begun_again(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path, route: str
) -> None:
    told = offer(server, tmp_path)
    server.order(route, HANG)
    first = doomed()
    server.wait_for(lambda: route in server.requests)
    first.kill()
    said = work().join()
    assert "is taken up" in said
    assert told.result is not None
    assert told.result["failure"] is None


def test_a_worker_goes_on_without_its_agent_and_is_followed_by_the_next(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    first = doomed()
    server.wait_for(lambda: len(told.events) >= 5)
    first.kill()
    agent = work()
    processes = agent.folder().read_processes()
    assert processes is not None
    n_beats = len(told.beats)
    server.wait_for(lambda: len(told.beats) > n_beats + 2)
    assert is_alive(processes.worker)
    (agent.folder().path / "go").touch()
    agent.join()
    assert told.result is not None
    assert told.result["exit"]["code"] == 0
    assert [event["event"] for event in told.events].count("metric") == 10


def test_a_job_that_ended_while_no_agent_was_there_is_told(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    first = doomed()
    server.wait_for(lambda: len(told.events) >= 5)
    first.kill()
    folder = JobFolder(tmp_path / "work" / "jobs" / "run-1.1")
    (folder.path / "go").touch()
    server.wait_for(folder.exit.exists)
    work().join()
    assert told.result is not None
    assert told.predictions is not None
    assert told.result["next_seq"] == len(told.events)


@pytest.mark.parametrize("route", ["predictions", "result"])
def test_an_agent_that_died_on_the_way_home_leaves_that_to_the_next(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path, route: str
) -> None:
    told = offer(server, tmp_path)
    server.order(route, HANG)
    first = doomed()
    server.wait_for(lambda: route in server.requests)
    first.kill()
    work().join()
    assert told.result is not None
    assert told.predictions is not None


def test_a_result_is_told_again_when_the_agent_died_before_it_cleared_up(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("result", LOST, HANG)
    first = doomed()
    server.wait_for(lambda: server.requests.count("result") == 2)
    first.kill()
    agent = work()
    agent.join()
    assert len(told.results) == 2
    assert not (agent.folder().path / "held.json").exists()


def test_a_job_that_the_server_has_let_go_of_meanwhile_is_stopped(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    first = doomed()
    server.wait_for(lambda: len(told.events) >= 5)
    first.kill()
    folder = JobFolder(tmp_path / "work" / "jobs" / "run-1.1")
    processes = folder.read_processes()
    assert processes is not None
    told.stale = True
    agent = work()
    agent.wait_for(lambda: not folder.path.exists())
    assert not is_alive(processes.worker)


def test_a_launcher_that_died_with_its_agent_is_told_as_no_end(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    first = doomed()
    server.wait_for(lambda: len(told.events) >= 5)
    processes = JobFolder(tmp_path / "work" / "jobs" / "run-1.1").read_processes()
    assert processes is not None
    first.kill()
    os.kill(processes.launcher.pid, 9)
    work().join()
    assert told.result is not None
    assert told.result["exit"] is None


def held(tmp_path: Path, name: str = "run-1.1", **changes: Any) -> Path:
    """The folder of a job in hand, as an agent has left it before it fetched anything."""
    path = tmp_path / "work" / "jobs" / name
    (path / "artifacts").mkdir(parents=True)
    job = {
        "run_id": "run-1",
        "attempt": 1,
        "spec": {},
        "bundle": {"sha256": "0" * 64, "bytes": 1},
        "code": {"sha256": "0" * 64, "bytes": 1},
    }
    body = {"v": 1, "server": "", "backend": "far", "lease": "ab" * 16, "job": job, **changes}
    write_json(path / "held.json", body)
    return path


@pytest.mark.parametrize(
    "changes", [{"server": "http://elsewhere:8000"}, {"server": "", "backend": "another"}]
)
def test_a_job_for_another_server_or_backend_is_named_and_left(
    work: Work, tmp_path: Path, changes: dict[str, str]
) -> None:
    path = held(tmp_path, **changes)
    agent = work()
    agent.wait_for(lambda: "waiting" in agent.said.getvalue())
    assert "run-1.1 is left as it is" in agent.said.getvalue()
    assert (path / "held.json").exists()


def test_a_living_worker_of_another_backend_is_said_with_how_to_take_it_up(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    first = doomed()
    server.wait_for(lambda: len(told.events) >= 5)
    first.kill()
    agent = work(backend="another one")
    agent.wait_for(lambda: "left as it is" in agent.said.getvalue())
    assert "its worker runs, and ends by itself after 30 s" in agent.said.getvalue()
    assert "To take it up, start an agent in this folder with --backend far" in agent.said.getvalue()


def test_a_job_of_slurm_is_left_to_an_agent_that_submits(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    path = held(tmp_path, server=server.url)
    write_json(path / "slurm.json", {"name": "potato-run-1.1-0a1b2c3d", "job_id": "4242"})
    agent = work()
    agent.wait_for(lambda: "waiting" in agent.said.getvalue())
    assert "start an agent in this folder with --slurm-config" in agent.said.getvalue()
    assert (path / "held.json").exists()


def test_a_worker_beside_an_agent_is_followed_there_also_by_one_that_submits(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path, "wait")
    first = doomed()
    server.wait_for(lambda: len(told.events) >= 5)
    first.kill()
    agent = work(slurm=SlurmKeys(env={"PATH": "/nowhere"}))
    server.wait_for(lambda: "is taken up" in agent.said.getvalue())
    (agent.folder().path / "go").touch()
    agent.join()
    assert told.result is not None
    assert told.result["exit"]["code"] == 0


@pytest.mark.parametrize("text", ["", "{", "[]", '{"v": 1}', '{"v": 2}', "\x00"])
def test_a_torn_job_is_named_and_left(work: Work, tmp_path: Path, text: str) -> None:
    path = held(tmp_path)
    (path / "held.json").write_text(text)
    agent = work()
    agent.wait_for(lambda: "waiting" in agent.said.getvalue())
    assert "run-1.1 is left as it is" in agent.said.getvalue()
    assert path.exists()


def test_a_job_under_another_name_is_no_job_of_that_folder(work: Work, tmp_path: Path) -> None:
    path = held(tmp_path, "run-2.1")
    agent = work()
    agent.wait_for(lambda: "waiting" in agent.said.getvalue())
    assert "of another job" in agent.said.getvalue()
    assert path.exists()


def test_what_is_no_job_is_named_and_left(work: Work, tmp_path: Path) -> None:
    jobs = tmp_path / "work" / "jobs"
    (jobs / "mine").mkdir(parents=True)
    (jobs / "notes.txt").write_text("keep")
    (jobs / "link").symlink_to(tmp_path)
    agent = work()
    agent.wait_for(lambda: "waiting" in agent.said.getvalue())
    assert agent.said.getvalue().count("is left as it is") == 3
    assert {path.name for path in jobs.iterdir()} == {"mine", "notes.txt", "link"}
    assert tmp_path.exists()


def test_what_was_begun_and_what_was_not_cleared_up_goes(work: Work, tmp_path: Path) -> None:
    jobs = tmp_path / "work" / "jobs"
    (jobs / ".new-abc").mkdir(parents=True)
    done = jobs / "run-0.1"
    (done / "bundle").mkdir(parents=True)
    (done / "artifacts").mkdir()
    (done / "artifacts" / "model.json").write_text("{}")
    (done / "held.json").write_text(json.dumps({"lease": "ab"}))
    write_json(done / "done.json", {"run_id": "run-0", "keep": False})
    agent = work()
    agent.wait_for(lambda: "waiting" in agent.said.getvalue())
    assert [path.name for path in jobs.iterdir()] == ["run-0.1"]
    assert {path.name for path in done.iterdir()} == {"artifacts", "done.json"}


def test_a_failure_that_was_noted_is_told_by_the_next_agent(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    told.bundle = told.bundle[:-40] + bytes(40)
    server.order("result", HANG)
    first = doomed()
    server.wait_for(lambda: "result" in server.requests)
    first.kill()
    n_requests = server.requests.count("bundle")
    work().join()
    assert told.result is not None
    assert told.result["failure"]["code"] == "backend_failed"
    assert server.requests.count("bundle") == n_requests


def test_an_agent_may_be_killed_again_and_again(
    server: ProtocolServer, work: Work, doomed: Start, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    for wait_s in (0.1, 0.2, 0.3, 0.4):
        agent = doomed()
        time.sleep(wait_s)
        agent.kill()
    last = work()
    server.wait_for(lambda: told.result)
    last.stop.ask()
    last.join()
    assert told.result is not None
    assert told.result["exit"]["code"] == 0
    assert [event["event"] for event in told.events].count("result") == 1
