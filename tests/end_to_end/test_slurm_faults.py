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
from slurm_job import SlurmJob
from slurm_lab import GRACE_S, LOST_AFTER_S, SlurmLab, slurm_lab
from whole_runs import ended, in_step, wait_until

from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

LONG = bool(os.environ.get("POTATO_RAY_LONG"))
AWAY_S = 120.0 if LONG else 3.0
"""How long slurmctld is away."""
SOON_S = 10.0
ON_A_CPU, QUICK, OLD, BROKEN = "cpu", "quick", "old", "broken"
NO_PYTHON = "/no/such/python"


@pytest.fixture(scope="module")
def running(module_slurm: SlurmCluster) -> Iterator[SlurmLab]:
    old = need_python38()
    variants = {
        ON_A_CPU: {},
        QUICK: {"heartbeat_timeout_s": 6},
        OLD: {"python": old, "job_python": old},
        BROKEN: {"prelude": ["module load cuda"], "job_python": NO_PYTHON},
    }
    with slurm_lab(module_slurm, variants) as made:
        yield made


@pytest.fixture
def lab(running: SlurmLab, slurm: SlurmCluster) -> SlurmLab:
    return running


def at_work(lab: SlurmLab, backend: str = ON_A_CPU) -> tuple[str, SlurmJob]:
    """A run whose worker waits, and its job."""
    run_id = lab.start("wait", backend=backend)
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


def test_a_prelude_that_did_not_find_its_module_is_named(lab: SlurmLab) -> None:
    run_id = lab.start("succeed", backend=BROKEN)
    run = ended(lab.config, run_id)
    assert run.error_code == "slurm_failed"
    assert run.error is not None
    assert f"its interpreter {NO_PYTHON} could not be started" in run.error
    assert "line 1 of its prelude failed with code 127" in run.error
    assert "module: command not found" in run.error


def test_an_allocation_is_given_back_soon_after_a_cancel(lab: SlurmLab) -> None:
    run_id, job = at_work(lab)
    lab.post(f"{API}/runs/{run_id}/cancel", {})
    assert seconds_until_its_end(job) < GRACE_S + SOON_S
    assert ended(lab.config, run_id).state == State.CANCELLED
    assert "The worker stopped on request." in lab.log(run_id)  # it was told, and not just killed


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


@pytest.mark.parametrize("how", ["without", "hung"])
def test_a_slurm_that_is_away_at_the_submission_gets_the_job_once(lab: SlurmLab, how: str) -> None:
    before = lab.cluster.ask("squeue", "--noheader", "--states=all", "--format=%A").split()
    with getattr(lab.cluster, how)("slurmctld"):
        run_id = lab.start("succeed", backend=ON_A_CPU)
        wait_until(lab.config, run_id, in_step("submitting the job to SLURM"))
        time.sleep(AWAY_S)
    lab.succeeded(run_id)
    after = lab.cluster.ask("squeue", "--noheader", "--states=all", "--format=%A").split()
    assert len(set(after) - set(before)) == 1


@pytest.mark.parametrize("how", ["without", "hung"])
def test_a_cancel_waits_for_a_slurm_that_is_away(lab: SlurmLab, how: str) -> None:
    run_id, job = at_work(lab)
    with getattr(lab.cluster, how)("slurmctld"):
        lab.post(f"{API}/runs/{run_id}/cancel", {})
        assert ended(lab.config, run_id).state == State.CANCELLED
        time.sleep(AWAY_S)
    job.ends()
    assert lab.nothing_is_left(run_id), lab.left(run_id)
