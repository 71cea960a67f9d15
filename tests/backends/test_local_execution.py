"""What becomes of local runs whose launcher, worker, folder or follower goes wrong."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from job_making import make_job
from listening import Listener, left_by, lose_after_five

from potato_ray.backends.base import Directive, Job
from potato_ray.backends.local import LocalBackend, LocalSettings
from potato_ray.backends.supervision import START_TIMEOUT_S
from potato_ray.job.claim import LaunchFailed
from potato_ray.job.folder import JobFolder


@pytest.fixture
def local() -> LocalBackend:
    return LocalBackend()


def becomes_true(condition: Callable[[], bool]) -> bool:
    deadline = time.monotonic() + 5.0
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.02)
    return condition()


def gone_soon(local: LocalBackend, job: Job) -> bool:
    return becomes_true(lambda: not local.alive(job.folder))


def leave_running(local: LocalBackend, folder: Path) -> Job:
    """A run that waits for ever, and whose follower is gone; the job to follow it again."""
    job = make_job(folder, "wait")
    heard = Listener(lose_after_five)
    left_by(local, job, heard)
    return replace(job, first_seq=len(heard.events))


def test_a_worker_that_is_killed_is_explained(local: LocalBackend, tmp_path: Path) -> None:
    outcome = local.execute(make_job(tmp_path / "job", "die"), Listener())
    assert (outcome.status, outcome.error_code) == ("error", "killed")
    assert "most likely" in outcome.message
    assert outcome.peak_rss_mb > 1


def test_a_run_over_its_wall_clock_has_ended_before_its_stubborn_worker_is_gone(
    local: LocalBackend, tmp_path: Path
) -> None:
    job = make_job(tmp_path / "job", "stubborn", max_wall_s=1.5, grace_s=2.0)
    alive_at_the_note: list[bool] = []

    def watch(heard: Listener) -> Directive:
        if heard.notes and not alive_at_the_note:
            alive_at_the_note.append(local.alive(job.folder))
        return Directive()

    heard = Listener(watch)
    outcome = local.execute(job, heard)
    assert [note["error_code"] for note in heard.notes] == ["wall_clock"]
    assert heard.notes[0]["message"].startswith(
        "Stopped: the run took longer than model_training.max_wall_seconds"
    )
    assert heard.notes[0]["evidence"] == outcome.evidence != ""
    assert alive_at_the_note == [True]
    assert outcome.error_code == "wall_clock"
    assert not local.alive(job.folder)


def test_a_removed_job_folder_ends_the_run(local: LocalBackend, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "wait")

    def remove_after_five(heard: Listener) -> Directive:
        if heard.n_steps >= 5 and job.folder.exists():
            job.folder.rename(tmp_path / "elsewhere")
        return Directive()

    outcome = local.execute(job, Listener(remove_after_five))
    assert (outcome.status, outcome.error_code) == ("error", "backend_failed")
    assert "job folder was removed" in outcome.message
    moved = replace(job, folder=tmp_path / "elsewhere")
    local.execute(moved, Listener(lambda heard: Directive(cancel=True, grace_s=0.0)))
    assert gone_soon(local, moved)


def test_the_lease_is_renewed_while_the_sink_waits(local: LocalBackend, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job", "wait")
    lease = JobFolder(job.folder).lease
    renewed: list[bool] = []

    def wait_long(heard: Listener) -> Directive:
        if heard.n_steps >= 5 and not renewed:
            os.utime(lease, (0, 0))
            renewed.append(becomes_true(lambda: lease.stat().st_mtime > 0))
        return Directive(cancel=bool(renewed), grace_s=1.0)

    assert local.execute(job, Listener(wait_long)).status == "cancelled"
    assert renewed == [True]


def test_nobody_renews_the_lease_when_the_execution_is_over(local: LocalBackend, tmp_path: Path) -> None:
    leave_running(local, tmp_path / "job")
    assert not [thread for thread in threading.enumerate() if thread.name == "lease"]


def test_a_spec_that_cannot_be_read_is_said(local: LocalBackend, tmp_path: Path) -> None:
    job = make_job(tmp_path / "job")
    JobFolder(job.folder).spec.write_text('{"v": 99}')
    outcome = local.execute(job, Listener())
    assert (outcome.status, outcome.error_code) == ("error", "bad_spec")
    assert outcome.next_step


def test_a_launcher_that_cannot_start_fails_the_run_with_its_words(tmp_path: Path) -> None:
    def start(folder: Path) -> None:
        raise LaunchFailed("launch_failed", "No space left.", "Free some.")

    outcome = LocalBackend(start=start).execute(make_job(tmp_path / "job"), Listener())
    assert (outcome.error_code, outcome.message, outcome.next_step) == (
        "backend_failed",
        "No space left.",
        "Free some.",
    )


def test_a_launcher_that_stays_silent_is_given_up_at_the_deadline(tmp_path: Path) -> None:
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    local = LocalBackend(start=lambda folder: None, clock=lambda: now[0], sleep=sleep)
    outcome = local.execute(make_job(tmp_path / "job"), Listener())
    assert outcome.error_code == "backend_failed"
    assert START_TIMEOUT_S <= now[0] < START_TIMEOUT_S + 1


def test_a_second_start_of_the_same_job_follows_the_first(tmp_path: Path) -> None:
    local = LocalBackend()
    job = make_job(tmp_path / "job")

    def start_twice(folder: Path) -> None:
        local._start_launcher(folder)
        raise LaunchFailed("already_launched", "A living launcher holds its lock.")

    assert LocalBackend(start=start_twice).execute(job, Listener()).status == "success"


def test_a_spare_that_is_not_there_means_a_cold_start(tmp_path: Path) -> None:
    local = LocalBackend(settings=LocalSettings(spare=tmp_path / "no-socket"))
    assert local.execute(make_job(tmp_path / "job"), Listener()).status == "success"
