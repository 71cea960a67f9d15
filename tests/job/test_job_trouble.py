"""A full disk under a job folder, and a copy of one: what worker, launcher and follower make of it."""

from __future__ import annotations

import errno
import os
import shutil

import pytest
from job_folders import end_of, last, said

from potato_ray.job import event_log, events, folder, supervisor, worker
from potato_ray.job.event_log import EventLog
from potato_ray.job.failures import DISK_FULL, explain
from potato_ray.job.folder import Exit, JobFolder
from potato_ray.job.follow import ALIVE, ENDED, GONE, Follower
from potato_ray.job.launcher import start_detached
from potato_ray.job.outcome import explain as explain_end

FULL = OSError(errno.ENOSPC, "No space left on device")


def test_a_worker_that_finds_the_disk_full_has_an_exit_code_for_it():
    assert explain(FULL, "t").exit_code == events.EXIT_DISK_FULL
    told = explain_end(Exit(events.EXIT_DISK_FULL, None), None, None)
    assert (told.status, told.error_code, told.message) == ("error", "fit_failed", DISK_FULL)
    assert "Free some space" in told.next_step


class FullStderr:
    """stderr.log, on a full disk."""

    def write(self, text):
        raise FULL

    def flush(self):
        raise FULL


def test_the_exit_code_speaks_when_neither_event_nor_traceback_can_be_written(tmp_path, monkeypatch):
    log = EventLog(JobFolder(tmp_path).events)
    monkeypatch.setattr(log, "write", full)
    monkeypatch.setattr(worker.sys, "stderr", FullStderr())
    assert worker._report(log, explain(FULL, "t")) == events.EXIT_DISK_FULL


def full(*args, **fields):
    raise FULL


def test_an_event_behind_one_that_a_full_disk_has_cut_off_is_whole(tmp_path, monkeypatch):
    job = JobFolder(tmp_path)
    log = EventLog(job.events)
    log.write("log", message="first")
    write = os.write
    room = [20, 0]

    def into_what_is_left(descriptor, data):
        if not room[0]:
            raise FULL
        return write(descriptor, data[: room.pop(0)])

    with monkeypatch.context() as patched:
        patched.setattr(event_log.os, "write", into_what_is_left)
        with pytest.raises(OSError, match="No space"):
            log.write("log", message="second")
    log.write("log", message="third")
    told = [event["message"] for event in Follower(job).poll()]
    assert told[0] == "first"
    assert "is no event and was left out" in told[1]
    assert told[2:] == ["third"]


def test_a_cancel_on_a_full_disk_is_an_empty_file(tmp_path, monkeypatch):
    monkeypatch.setattr(folder, "write_json", full)
    JobFolder(tmp_path).request_cancel("cancelled", 3.0)
    assert JobFolder(tmp_path).cancel.read_text() == ""


def test_an_empty_request_stops_the_worker(make_job):
    job = make_job("Silent")
    start_detached(job)
    said(job, "silent")
    job.cancel.touch()
    assert (end_of(job, 5).reason, last(job, "result")) == ("cancelled", None)


def test_a_launcher_that_cannot_complain_goes_on(monkeypatch):
    monkeypatch.setattr(supervisor.sys, "stderr", FullStderr())
    supervisor._complain("the disk is full")


def test_a_copied_folder_is_not_followed_and_what_works_in_the_original_is_left_alone(make_job, tmp_path):
    job = make_job("Silent")
    start_detached(job)
    said(job, "silent")
    shutil.copytree(job.path, tmp_path / "copy", symlinks=True)
    copy = Follower(JobFolder(tmp_path / "copy"))
    assert copy.state() == GONE
    assert copy.end_remains() == []
    assert Follower(job).state() == ALIVE
    job.request_cancel("cancelled", 2.0)
    end_of(job)
    assert (Follower(job).state(), copy.state()) == (ENDED, GONE)
