"""Agents that submit, over real loopback HTTP, to a SLURM that is none: what becomes of a job in trouble."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from agent_at_work import AgentAtWork, offer
from fake_slurm import DOWN, FakeSlurm
from protocol_server import ProtocolServer

from potato_ray.agent.job_run import JobRun
from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.slurm.place import SlurmPlace
from potato_ray.agent.slurm.states import NOT_SEEN

Work = Callable[..., AgentAtWork]


@pytest.fixture
def fake(tmp_path: Path) -> FakeSlurm:
    return FakeSlurm(tmp_path / "fake")


@pytest.fixture
def submit(work: Work, fake: FakeSlurm) -> Work:
    """Starts an agent whose jobs are SLURM's."""
    keys = SlurmKeys(poll_interval_s=0.05, env=fake.env)
    return lambda **settings: work(slurm=keys, **settings)


class Blind:
    """The watch of a job that cannot be looked at, nor cancelled."""

    seen = NOT_SEEN

    def cancel(self, grace_s: float) -> None:
        pass


def cancelled_by_name(fake: FakeSlurm) -> bool:
    [job] = fake.jobs().values()
    return [f"--name={job['name']}"] in fake.arguments("scancel")


def test_trouble_of_the_agents_own_leaves_no_job_that_waits(
    server: ProtocolServer, submit: Work, fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: JobRun) -> None:
        monkeypatch.undo()
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(JobRun, "_watch", broken)
    told = offer(server, tmp_path)
    submit().join()
    assert cancelled_by_name(fake)
    assert told.result is not None
    assert "can't start new thread" in told.result["failure"]["message"]


def test_a_cancel_during_a_slow_submission_leaves_no_job(
    server: ProtocolServer, submit: Work, fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("potato_ray.agent.apart.PART_S", 0.1)
    monkeypatch.setattr("potato_ray.agent.slurm.place.AGAIN_S", 0.1)
    fake.answers("sbatch", delay_s=2.0, out="4242\n", submits="late")
    told = offer(server, tmp_path)
    agent = submit()
    server.wait_for(lambda: fake.calls("sbatch"))
    told.cancel_grace_s = 1.5
    agent.join()
    assert cancelled_by_name(fake)
    assert told.result is not None
    assert told.result["exit"]["reason"] == "cancelled"


def test_a_job_that_slurm_would_not_cancel_stays_known_and_is_cancelled_by_the_next_agent(
    server: ProtocolServer, submit: Work, fake: FakeSlurm, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SlurmPlace, "after_grace_s", 0.5)
    monkeypatch.setattr(SlurmPlace, "_watching", lambda place: Blind())
    fake.answers("scancel", code=8, err=f"scancel: error: {DOWN}\n")
    told = offer(server, tmp_path)
    agent = submit()
    server.wait_for(lambda: fake.jobs())
    told.cancel_grace_s = 0.5
    agent.join()
    assert agent.folder().submission.exists()
    assert len(fake.calls("scancel")) == 1
    submit().join()
    assert len(fake.calls("scancel")) == 2
    assert cancelled_by_name(fake)
    assert not agent.folder().submission.exists()
