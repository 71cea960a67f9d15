"""What becomes of a run on a real SLURM when something around it fails, and when it is cancelled."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from parts import need_python38
from server_process import API
from slurm_cluster import SlurmCluster
from slurm_job import SlurmJob, happens
from slurm_lab import GRACE_S, LOST_AFTER_S, SlurmLab, slurm_lab
from whole_runs import ended, folder_of, in_step, wait_until

from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

LONG = bool(os.environ.get("POTATO_RAY_LONG"))
AWAY_S = 120.0 if LONG else 3.0
"""How long slurmctld is away."""
SOON_S = 10.0
ON_A_CPU, QUICK, OLD = "cpu", "quick", "old"
AWAY = pytest.mark.parametrize("how", ["without", "hung"])
"""slurmctld is shut down, or does nothing."""


@pytest.fixture(scope="module")
def running(module_slurm: SlurmCluster) -> Iterator[SlurmLab]:
    old = need_python38()
    variants = {
        ON_A_CPU: {},
        QUICK: {"heartbeat_timeout_s": 6},
        OLD: {"python": old, "job_python": old},
    }
    with slurm_lab(module_slurm, variants, impatient=True) as made:
        yield made


@pytest.fixture
def lab(running: SlurmLab, slurm: SlurmCluster) -> SlurmLab:
    return running


def at_work(lab: SlurmLab, backend: str = ON_A_CPU, act: str = "wait") -> tuple[str, SlurmJob]:
    """A run whose worker waits, and its job."""
    run_id = lab.start(act, backend=backend)
    wait_until(lab.config, run_id, in_step("rehearsing"))
    return run_id, lab.slurm_job(run_id)


def seconds_until_its_end(job: SlurmJob) -> float:
    began = time.monotonic()
    job.ends()
    return time.monotonic() - began


def test_python_38_on_login_and_compute_node_will_do(lab: SlurmLab) -> None:
    run_id = lab.start("succeed", backend=OLD)
    lab.succeeded(run_id)
    assert "Python 3.8." in lab.log(run_id)


def test_an_allocation_is_given_back_soon_after_a_cancel(lab: SlurmLab) -> None:
    run_id, job = at_work(lab)
    lab.post(f"{API}/runs/{run_id}/cancel", {})
    assert seconds_until_its_end(job) < GRACE_S + SOON_S
    assert ended(lab.config, run_id).state == State.CANCELLED
    assert "The worker stopped on request." in lab.log(run_id)  # it was told, and not just killed


def test_what_a_worker_saves_when_it_is_told_to_end_comes_home(lab: SlurmLab) -> None:
    run_id, job = at_work(lab, act="save")
    lab.post(f"{API}/runs/{run_id}/cancel", {})
    assert seconds_until_its_end(job) < GRACE_S + SOON_S
    assert ended(lab.config, run_id).state == State.CANCELLED
    assert lab.nothing_is_left(run_id), lab.left(run_id)
    assert (folder_of(lab.config, run_id).artifacts / "best.ckpt").read_text() == "half of it"


def test_a_job_is_cancelled_over_another_channel_when_its_agent_is_dead(lab: SlurmLab) -> None:
    run_id, job = at_work(lab)
    os.kill(lab.agent_pid(run_id), signal.SIGKILL)
    lab.post(f"{API}/runs/{run_id}/cancel", {})
    assert seconds_until_its_end(job) < GRACE_S + SOON_S
    assert ended(lab.config, run_id).state == State.CANCELLED
    assert lab.nothing_is_left(run_id), lab.left(run_id)


def test_a_login_node_that_is_cut_off_for_good_gives_its_allocation_back(lab: SlurmLab) -> None:
    run_id, job = at_work(lab, QUICK)
    lab.sshd.stop()
    try:
        run = ended(lab.config, run_id)
        assert run.error == f"No word from the agent on {QUICK} for 6 seconds."
        assert seconds_until_its_end(job) < LOST_AFTER_S + GRACE_S + SOON_S
    finally:
        lab.sshd.start()
    lab.succeeded(lab.start("succeed", backend=QUICK))
    assert lab.nothing_is_left(run_id), lab.left(run_id)


@AWAY
def test_a_slurm_that_is_away_at_the_submission_gets_the_job_once(lab: SlurmLab, how: str) -> None:
    before = set(lab.jobs())
    with getattr(lab.cluster, how)("slurmctld"):
        run_id = lab.start("succeed", backend=ON_A_CPU)
        wait_until(lab.config, run_id, in_step("submitting the job to SLURM"))
        time.sleep(AWAY_S)
    lab.succeeded(run_id)
    assert len(set(lab.jobs()) - before) == 1


@AWAY
def test_a_slurm_that_is_away_while_the_job_waits_starts_it_later(lab: SlurmLab, how: str) -> None:
    in_its_way = lab.cluster.submit("exec sleep 600", "--exclusive", "--nodes=2")
    in_its_way.becomes("RUNNING")
    before = set(lab.jobs())
    run_id = lab.start("succeed", backend=ON_A_CPU)
    waiting = wait_until(lab.config, run_id, lambda run: "PENDING (Resources)" in run.step)
    with getattr(lab.cluster, how)("slurmctld"):
        wait_until(lab.config, run_id, lambda run: run.step.startswith("SLURM does not answer squeue on "))
        time.sleep(AWAY_S)
    wait_until(lab.config, run_id, in_step(waiting.step))
    in_its_way.cancel()
    lab.succeeded(run_id)
    assert "SLURM answers again, after " in lab.log(run_id)
    assert len(set(lab.jobs()) - before) == 1
    assert lab.nothing_is_left(run_id), lab.left(run_id)


@AWAY
def test_a_worker_may_end_while_slurm_is_away(lab: SlurmLab, how: str) -> None:
    before = set(lab.jobs())
    run_id, job = at_work(lab)
    with getattr(lab.cluster, how)("slurmctld"):
        assert happens(lambda: "SLURM does not answer squeue on " in lab.log(run_id))
        lab.go(run_id)
        assert lab.succeeded(run_id).n_test
        time.sleep(AWAY_S)
    assert job.end == ("COMPLETED", "None", "0:0")
    assert set(lab.jobs()) - before == {job.id}
    assert lab.nothing_is_left(run_id), lab.left(run_id)


@AWAY
def test_a_cancel_waits_for_a_slurm_that_is_away(lab: SlurmLab, how: str) -> None:
    run_id, job = at_work(lab)
    with getattr(lab.cluster, how)("slurmctld"):
        lab.post(f"{API}/runs/{run_id}/cancel", {})
        assert ended(lab.config, run_id).state == State.CANCELLED
        time.sleep(AWAY_S)
    job.ends()
    assert lab.nothing_is_left(run_id), lab.left(run_id)
