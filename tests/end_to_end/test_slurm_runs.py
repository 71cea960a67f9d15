"""Whole runs on a real SLURM behind a real sshd."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator

import pytest
from server_process import API
from slurm_cluster import SlurmCluster
from slurm_lab import SlurmLab, slurm_lab
from whole_runs import ended, in_step, wait_until

from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

POLL_S = 2
CPU, GPU, SMALL, HELD, WRONG = "cpu", "gpu", "small", "held", "wrong"
VARIANTS = {
    CPU: {},
    GPU: {"gres": "gpu:1"},
    SMALL: {"mem": "150M", "poll_interval_s": POLL_S},
    HELD: {"sbatch_args": ["--hold"]},
    WRONG: {"partition": "nosuch"},
}


@pytest.fixture
def lab(running: SlurmLab, slurm: SlurmCluster) -> SlurmLab:
    return running


@pytest.fixture(scope="module")
def running(module_slurm: SlurmCluster) -> Iterator[SlurmLab]:
    with slurm_lab(module_slurm, VARIANTS) as made:
        yield made


@pytest.mark.parametrize(
    ("backend", "ok", "words"),
    [(GPU, True, "SLURM would take the job"), (WRONG, False, "Invalid partition name specified")],
)
def test_a_check_asks_slurm_whether_it_would_take_the_job(
    lab: SlurmLab, backend: str, ok: bool, words: str
) -> None:
    before = lab.cluster.ask("squeue", "--noheader", "--states=all")
    report = lab.post(f"{API}/backends/{backend}/check", {})
    [job] = [check for check in report["checks"] if check["name"] == "job"]
    assert (report["ok"], job["ok"]) == (ok, ok)
    assert words in job["message"]
    assert lab.cluster.ask("squeue", "--noheader", "--states=all") == before


def test_a_run_comes_home_and_leaves_nothing(lab: SlurmLab) -> None:
    run_id = lab.start(backend=CPU)
    run = lab.succeeded(run_id)
    assert run.started_at is not None
    log = lab.log(run_id)
    assert "Submitted SLURM job " in log
    assert "--mem=400M" in log
    assert run.n_test
    assert lab.nothing_is_left(run_id), lab.left(run_id)


@pytest.mark.parametrize(("backend", "seen"), [(GPU, "0"), (CPU, "")])
def test_a_worker_sees_the_cards_that_slurm_gave_it_and_no_others(
    lab: SlurmLab, backend: str, seen: str
) -> None:
    run_id = lab.start("succeed", backend=backend, trainer="accelerated")
    lab.succeeded(run_id)
    assert f" CUDA_VISIBLE_DEVICES={seen}\n" in lab.log(run_id)


def test_ten_runs_at_once_ask_squeue_once_an_interval_in_all(lab: SlurmLab) -> None:
    logins = lab.sshd.log.count("Accepted publickey")
    runs = [lab.start("wait", backend=SMALL) for _ in range(10)]
    for run_id in runs:
        wait_until(lab.config, run_id, in_step("rehearsing"))
    before = lab.squeues.read_text().count("\n")
    time.sleep(5 * POLL_S)
    # No more than one an interval; fewer where the machine is busy.
    assert 2 <= lab.squeues.read_text().count("\n") - before <= 6
    for run_id in runs:
        lab.go(run_id)
    for run_id in runs:
        lab.succeeded(run_id)
    # A run has up to three sessions at a time, and a host takes ten of them in one login.
    assert lab.sshd.log.count("Accepted publickey") - logins <= 4


def test_a_cancelled_run_frees_its_allocation(lab: SlurmLab) -> None:
    run_id = lab.start("wait", backend=CPU)
    wait_until(lab.config, run_id, in_step("rehearsing"))
    job = lab.slurm_job(run_id)
    lab.post(f"{API}/runs/{run_id}/cancel", {})
    run = ended(lab.config, run_id)
    assert run.state == State.CANCELLED
    job.ends()
    assert lab.nothing_is_left(run_id), lab.left(run_id)


def test_a_job_that_is_held_needs_a_person_and_is_cancelled_with_its_run(lab: SlurmLab) -> None:
    run_id = lab.start("wait", backend=HELD)
    wait_until(lab.config, run_id, lambda run: "JobHeldUser" in run.step)
    job = lab.slurm_job(run_id)
    assert "A person has to release it" in lab.log(run_id)
    lab.post(f"{API}/runs/{run_id}/cancel", {})
    run = ended(lab.config, run_id)
    # It never had a worker whose times could be told.
    assert (run.state, run.started_at, run.duration_s) == (State.CANCELLED, None, None)
    assert job.end[0] == "CANCELLED"


def test_a_job_that_somebody_cancels_fails_its_run_with_that_reason(lab: SlurmLab) -> None:
    run_id = lab.start("wait", backend=CPU)
    wait_until(lab.config, run_id, in_step("rehearsing"))
    job = lab.slurm_job(run_id)
    job.cancel()
    run = ended(lab.config, run_id)
    assert run.error_code == "slurm_failed"
    assert run.error is not None
    assert run.error.startswith(
        f"SLURM job {job.id} ended before the worker finished: it was cancelled from outside"
    )


def test_an_agent_that_was_killed_is_followed_by_one_that_takes_the_job_up(lab: SlurmLab) -> None:
    run_id = lab.start("wait", backend=CPU)
    wait_until(lab.config, run_id, in_step("rehearsing"))
    os.kill(lab.agent_pid(run_id), signal.SIGKILL)
    lab.go(run_id)
    lab.succeeded(run_id)
    assert lab.nothing_is_left(run_id), lab.left(run_id)


def test_a_server_that_was_killed_follows_the_job_again(lab: SlurmLab) -> None:
    run_id = lab.start("wait", backend=CPU)
    wait_until(lab.config, run_id, in_step("rehearsing"))
    lab.restart()
    lab.go(run_id)
    lab.succeeded(run_id)
