"""Stopping: limits, cancel, lost leases, kills. Real processes; nothing may be left of any."""

from __future__ import annotations

import os
import shutil
import signal
import time

import pytest
from job_folders import end_of, events_of, last, left_of, said, wait_for

from potato_ray.job.folder import read_json
from potato_ray.job.follow import Follower
from potato_ray.job.launcher import start_detached
from potato_ray.job.outcome import explain
from potato_ray.job.processes import is_alive


def outcome(folder):
    return explain(folder.read_exit(), last(folder, "result"), last(folder, "error"))


@pytest.mark.alone
def test_a_silent_worker_is_stopped_within_a_second_and_a_half_of_its_limit(make_job):
    job = make_job("Silent", max_wall_s=1.0)
    start_detached(job)
    end = end_of(job)
    assert 1.0 <= end.ended_at - end.started_at < 2.5
    assert (end.reason, end.code) == ("wall_clock", 4)
    told = outcome(job)
    assert told.error_code == "wall_clock"
    assert told.message.startswith("Stopped: the run took longer than model_training.max_wall_seconds")


@pytest.mark.alone
def test_the_end_by_wall_clock_is_told_before_the_grace_is_over(make_job):
    job = make_job("Native", max_wall_s=0.5, grace_s=3.0)
    start_detached(job)
    stopping = wait_for(lambda: read_json(job.stopping), "stopping.json")
    assert stopping["reason"] == "wall_clock"
    assert not job.exit.exists()
    end = end_of(job)
    assert end.signal == signal.SIGKILL
    assert 3.4 < end.ended_at - end.started_at < 5


def test_cancel_interrupts_python_code_at_once(make_job):
    job = make_job("Silent")
    start_detached(job)
    said(job, "silent")
    job.request_cancel("asked", grace_s=20.0)
    end = end_of(job, 5)
    assert (end.reason, end.code) == ("cancelled", 4)
    assert outcome(job).status == "cancelled"
    assert events_of(job)[-1]["message"] == "The worker stopped on request."


@pytest.mark.alone
def test_cancel_kills_native_code_after_the_grace(make_job):
    job = make_job("Native")
    start_detached(job)
    said(job, "native")
    began = time.monotonic()
    job.request_cancel("asked", grace_s=0.5)
    end = end_of(job, 5)
    assert 0.4 < time.monotonic() - began < 2
    assert (end.reason, end.signal) == ("cancelled", signal.SIGKILL)


def test_a_worker_that_swallows_the_stop_is_killed_after_the_grace(make_job):
    job = make_job("Stubborn")
    start_detached(job)
    said(job, "stubborn")
    job.request_cancel("asked", grace_s=0.3)
    assert end_of(job, 5).signal == signal.SIGKILL


def test_one_gibibyte_under_a_limit_of_512_is_out_of_memory_with_figures(make_job):
    job = make_job("Hungry", max_ram_mb=512)
    start_detached(job)
    end = end_of(job)
    assert end.reason == "out_of_memory"
    assert end.peak_rss_mb > 512
    told = outcome(job)
    assert told.error_code == "out_of_memory"
    assert "max_ram_mb is 512" in told.evidence
    assert "Raise max_ram_mb" in told.next_step


def test_a_normal_run_stays_well_under_512(make_job):
    job = make_job(max_ram_mb=512)
    start_detached(job)
    assert end_of(job).code == 0


def test_a_worker_killed_from_outside_is_told_as_most_likely_out_of_memory(make_job):
    job = make_job("Silent")
    start_detached(job)
    said(job, "silent")
    os.kill(job.read_processes().worker.pid, signal.SIGKILL)
    end = end_of(job, 5)
    assert (end.signal, end.reason) == (signal.SIGKILL, "")
    told = outcome(job)
    assert told.error_code == "killed"
    assert "most likely the machine ran out of memory" in told.message


def test_the_worker_dies_with_its_launcher_and_the_folder_shows_it(make_job):
    job = make_job("StayingFamily")
    start_detached(job)
    said(job, "family")
    follower = Follower(job)
    assert follower.state() == "alive"
    processes = job.read_processes()
    os.kill(processes.launcher.pid, signal.SIGKILL)
    wait_for(lambda: not is_alive(processes.worker), "the worker's death", 2)
    assert follower.state() == "gone"
    assert follower.end_remains() == []
    assert left_of(job) == []
    assert explain(None, None, None).error_code == "killed"


def test_children_and_strays_of_a_finished_worker_are_ended_before_exit_json(make_job):
    job = make_job("Family")
    start_detached(job)
    end = end_of(job)
    assert left_of(job) == []
    assert (end.code, end.detail) == (0, "")


def test_children_and_strays_of_a_cancelled_worker_are_ended(make_job):
    job = make_job("StayingFamily")
    start_detached(job)
    said(job, "family")
    assert len(left_of(job)) == 3
    job.request_cancel("asked", grace_s=0.5)
    end_of(job, 5)
    assert left_of(job) == []


def test_a_lease_that_nobody_renews_ends_the_worker(make_job):
    job = make_job("Silent", lost_after_s=1.0)
    start_detached(job)
    follower = Follower(job)
    for _ in range(8):
        follower.renew_lease()
        time.sleep(0.2)
    assert not job.stopping.exists()
    end = end_of(job, 5)
    assert end.reason == "lost"
    assert outcome(job).error_code == "heartbeat_lost"


def test_a_launcher_that_is_told_to_end_takes_its_worker_along(make_job):
    job = make_job("Silent")
    launcher = start_detached(job)
    said(job, "silent")
    os.kill(launcher.pid, signal.SIGTERM)
    assert end_of(job, 5).reason == "terminated"
    assert outcome(job).error_code == "killed"


def test_a_removed_job_folder_ends_its_worker(make_job):
    job = make_job("Silent")
    launcher = start_detached(job)
    said(job, "silent")
    worker = job.read_processes().worker
    shutil.rmtree(job.path)
    wait_for(lambda: not is_alive(worker) and not is_alive(launcher), "the end of both", 5)


def test_the_heartbeat_is_touched_each_second(make_job):
    job = make_job("Silent")
    start_detached(job)
    wait_for(job.heartbeat.exists, "the first beat")
    first = job.heartbeat.stat().st_mtime
    wait_for(lambda: job.heartbeat.stat().st_mtime > first, "the second beat", 2)
