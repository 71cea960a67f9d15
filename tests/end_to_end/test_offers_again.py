"""A run whose first agent is lost before it trains: another one gets it, over a restart of the server too."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest
from agent_calls import AgentCalls
from agent_study import Study
from whole_runs import ended, folder_of, projects, wait_until

from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

BACKENDS = {"quick": {"type": "agent", "heartbeat_timeout_s": 3}}


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


@pytest.fixture
def lost(study: Study) -> Iterator[AgentCalls]:
    """An agent that has claimed a run, and was not heard of again until it is on offer once more."""
    with httpx.Client(base_url=study.server.url, timeout=60.0) as client:
        calls = AgentCalls(client, study.tokens["quick"])
        run_id = study.start(act="succeed", backend="quick")
        assert calls.claim(wait_s=30).status_code == 200
        assert (calls.run_id, calls.attempt) == (run_id, 1)
        wait_until(study.config, run_id, on_offer)
        yield calls


def on_offer(run: Run) -> bool:
    assert not run.ended, (run.error, run.error_evidence)
    return run.state == State.OFFERED


def trained_by_another(study: Study, lost: AgentCalls) -> None:
    """The run is trained by an agent that comes now, and from the bundle that was built."""
    manifest = folder_of(study.config, lost.run_id).bundle / "manifest.json"
    built = manifest.stat().st_mtime_ns
    study.agent(backend="quick")
    wait_until(study.config, lost.run_id, lambda run: run.state == State.FINISHING or run.ended)
    run = ended(study.config, lost.run_id)
    assert (run.state, run.attempt) == (State.SUCCESS, 2), (run.error, run.error_evidence)
    assert manifest.stat().st_mtime_ns == built
    assert run.n_train


def test_another_agent_trains_it_and_the_late_one_is_told_that_it_is_not_its_own(
    study: Study, lost: AgentCalls
) -> None:
    late = lost.progress(alive=True)
    assert (late.status_code, late.json()["error_code"]) == (409, "stale_attempt")
    assert lost.bundle().status_code == 409
    trained_by_another(study, lost)
    assert lost.result(failure={"code": "backend_failed", "message": "late"}).status_code == 409


def test_it_is_on_offer_after_a_kill_of_the_server_too(study: Study, lost: AgentCalls) -> None:
    study.restart()
    trained_by_another(study, lost)
