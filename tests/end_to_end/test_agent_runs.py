"""Whole runs on an agent: from the start on the server to the score of what came home."""

from __future__ import annotations

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from agent_study import Study
from server_process import API
from whole_runs import ended, folder_of, in_step, projects, wait_until

from potato_ray.agent_tokens import digest_of
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

BACKENDS = {"ws": {"type": "agent"}, "quick": {"type": "agent", "heartbeat_timeout_s": 8}}


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """One server for the tests of this module."""
    with projects() as make_project:
        study = Study(make_project(backends=BACKENDS), tmp_path_factory.mktemp("agent"), BACKENDS)
        yield study
        study.close()


@pytest.fixture
def study(running: Study) -> Iterator[Study]:
    yield running
    running.dismiss()


def succeeded(study: Study, run_id: str) -> Run:
    run = ended(study.config, run_id)
    assert run.state == State.SUCCESS, (run.error, run.error_evidence, [a.said for a in study.agents])
    assert run.attempt == 1
    return run


def test_a_run_on_an_agent_is_scored_and_its_model_stays_there(study: Study) -> None:
    agent = study.agent("--once")
    run = succeeded(study, study.start())
    assert agent.process.wait(timeout=20.0) == 0, agent.said
    assert run.headline is not None
    assert run.headline["n_items"] > 0
    assert len(list(study.reader.predictions(run.run_id))) > 0
    model = Path(run.artifact_uri.partition(":")[2])
    assert (model / "model.skops").is_file(), run.artifact_uri
    assert study.comes_to_rest()


def test_a_run_waits_until_an_agent_asks_and_starts_within_a_second(study: Study) -> None:
    run_id = study.start(act="succeed")
    time.sleep(1.0)  # it would have begun by now
    assert study.reader.run(run_id).state == State.OFFERED
    study.agent("--once")
    succeeded(study, run_id)
    second = study.agent()
    second.wait_until(lambda: len(study.reader.agents("ws")) > 1)
    began = time.time()
    run = succeeded(study, study.start(act="succeed"))
    assert run.begun_at is not None
    assert run.begun_at - began < 1.5


def test_the_token_is_in_no_file_of_the_project_and_in_no_process_of_a_job(study: Study) -> None:
    token = study.tokens["ws"].encode()
    study.agent()
    run_id = study.start(act="wait")
    wait_until(study.config, run_id, in_step("rehearsing"))
    commands = [Path(f"/proc/{pid}/cmdline") for agent in study.agents for pid in agent.left()]
    assert not any(token in path.read_bytes() for path in commands)
    assert study.working()
    assert not any(token in Path(f"/proc/{pid}/environ").read_bytes() for pid in study.working())
    study.go(run_id)
    succeeded(study, run_id)
    files = (
        path for top in (study.config.task_dir, study.workdir) for path in top.rglob("*") if path.is_file()
    )
    assert [path for path in files if token in path.read_bytes()] == []
    assert study.reader.backend_of_token(digest_of(study.tokens["ws"])) == "ws"


def test_a_cancel_reaches_the_worker_over_there(study: Study) -> None:
    study.agent()
    run_id = study.start(act="wait")
    wait_until(study.config, run_id, in_step("rehearsing"))
    study.post(f"{API}/runs/{run_id}/cancel", {})
    assert ended(study.config, run_id).state == State.CANCELLED
    assert study.comes_to_rest()
    succeeded(study, study.start(act="succeed"))


def test_an_agent_that_is_gone_is_late_first_and_its_run_lost_then(study: Study) -> None:
    agent = study.agent(backend="quick")
    run_id = study.start(act="wait", backend="quick")
    wait_until(study.config, run_id, in_step("rehearsing"))
    agent.process.send_signal(signal.SIGSTOP)
    wait_until(study.config, run_id, lambda run: run.step.startswith("no word from the agent on quick"))
    run = ended(study.config, run_id)
    word = "No word from the agent on quick for 8 seconds."
    assert (run.error_code, run.error) == ("heartbeat_lost", word)
    agent.process.send_signal(signal.SIGCONT)
    succeeded(study, study.start(act="succeed", backend="quick"))
    assert study.comes_to_rest()


def test_what_the_agent_says_of_itself_is_listed(study: Study) -> None:
    study.agent("--once")
    run = succeeded(study, study.start(act="succeed"))
    seen = study.reader.agents("ws")[0]
    assert (seen.host, seen.workdir) == (run.host, str(study.workdir))
    events = folder_of(study.config, run.run_id).events.read_text().splitlines()
    assert json.loads(events[-1])["event"] == "result"
