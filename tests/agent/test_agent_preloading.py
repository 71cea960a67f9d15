"""A worker that loads its trainer while the bundle comes: it gets the job, or else leaves nothing."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from agent_at_work import DEADLINE_S, AgentAtWork, end_job, offer
from job_making import make_job
from protocol_server import HANG, ProtocolServer
from spares import spare_pids

from potato_ray.agent.preloading import Preloading
from potato_ray.job import start
from potato_ray.job.folder import Exit, JobFolder, read_json
from potato_ray.job.processes import marked

Work = Callable[..., AgentAtWork]
CODE = Path(start.code_root(start.__file__))


@pytest.fixture
def ahead():
    made = Preloading()
    yield made
    made.close()


def spares(workdir: Path) -> list[int]:
    """The processes of the spare that was started last."""
    note = workdir / "spare.where"
    return spare_pids(note.read_text().splitlines()[-1]) if note.exists() else []


def ended(folder: JobFolder) -> Exit:
    deadline = time.monotonic() + DEADLINE_S
    while (end := folder.read_exit()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return end


def test_the_worker_of_a_job_was_started_before_its_bundle_was_there(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    agent = work(keep=True)
    agent.join()
    assert told.result is not None
    assert told.result["exit"]["code"] == 0
    processes = agent.folder().read_processes()
    assert processes is not None
    assert [each.partition("=")[0] for each in processes.markers] == ["POTATO_RAY_JOB", "POTATO_RAY_SPARE"]


def test_a_job_that_is_cancelled_during_its_download_leaves_no_worker(
    server: ProtocolServer, work: Work, tmp_path: Path
) -> None:
    told = offer(server, tmp_path)
    server.order("bundle", HANG)
    agent = work()
    agent.wait_for(lambda: spares(agent.workdir.path))
    assert marked(["POTATO_RAY_JOB=run-1:1"]) == spares(agent.workdir.path)
    told.cancel_grace_s = 2.0
    agent.join()
    agent.wait_for(lambda: not spares(agent.workdir.path))


def test_a_job_with_another_environment_than_expected_is_started_as_ever(ahead, tmp_path) -> None:
    folder = JobFolder(make_job(tmp_path / "job", "succeed").folder)
    spec = dict(read_json(folder.spec) or {}, env={"SOMETHING": "else"})
    ahead.start(spec, CODE, sys.executable, tmp_path)
    assert not ahead.take(folder)
    deadline = time.monotonic() + DEADLINE_S
    while not spares(tmp_path):  # it is there, or about to be, and was not taken
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize(
    "spec", [{}, {"trainer": "rehearsal", "env": 7}, {"trainer": "rehearsal", "limits": 7}]
)
def test_a_spec_that_cannot_be_read_starts_nothing(ahead, tmp_path, spec) -> None:
    ahead.start(spec, CODE, sys.executable, tmp_path)
    assert not ahead.take(JobFolder(tmp_path))
    assert not (tmp_path / "spare.where").exists()


def test_an_interpreter_that_is_not_there_starts_nothing(ahead, tmp_path) -> None:
    folder = JobFolder(make_job(tmp_path / "job", "succeed").folder)
    ahead.start(read_json(folder.spec) or {}, CODE, str(tmp_path / "python"), tmp_path)
    assert not ahead.take(folder)


def test_a_trainer_that_cannot_be_loaded_is_left_to_the_job_itself(ahead, tmp_path) -> None:
    folder = JobFolder(make_job(tmp_path / "job", "succeed").folder)
    spec = dict(read_json(folder.spec) or {}, trainer="no-such-trainer")
    ahead.start(spec, CODE, sys.executable, tmp_path)
    try:
        assert ahead.take(folder)
        assert ended(folder).code == 0
    finally:
        end_job(folder)
