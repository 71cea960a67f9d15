from __future__ import annotations

import json
import os
import socket

import pytest

from potato_ray.job.event_log import EventLog
from potato_ray.job.folder import Exit, JobFolder, Processes, ProcessId
from potato_ray.job.follow import LINE_LIMIT_BYTES, Follower
from potato_ray.job.processes import identify


@pytest.fixture
def job(tmp_path):
    return JobFolder(tmp_path)


def line(number):
    return json.dumps({"v": 1, "event": "log", "t": 0.0, "level": "info", "message": str(number)}) + "\n"


def append(job, text):
    with job.events.open("a", encoding="utf-8") as handle:
        handle.write(text)


def messages(events):
    return [event["message"] for event in events]


def test_there_are_no_events_before_there_is_a_file(job):
    assert Follower(job).poll() == []


def test_events_come_once_each_as_the_file_grows(job):
    follower = Follower(job)
    append(job, line(0) + line(1))
    assert messages(follower.poll()) == ["0", "1"]
    assert follower.poll() == []
    append(job, line(2))
    assert messages(follower.poll()) == ["2"]
    assert follower.next_seq == 3


def test_a_torn_last_line_waits_for_its_end(job):
    follower = Follower(job)
    whole = line(1)
    append(job, line(0) + whole[:10])
    assert messages(follower.poll()) == ["0"]
    append(job, whole[10:])
    assert messages(follower.poll()) == ["1"]


def test_a_follower_that_comes_later_skips_what_is_known(job):
    append(job, line(0) + line(1) + line(2))
    follower = Follower(job, first_seq=2)
    assert follower.next_seq == 2
    assert messages(follower.poll()) == ["2"]
    assert follower.next_seq == 3


def test_a_follower_may_start_beyond_the_end(job):
    follower = Follower(job, first_seq=2)
    append(job, line(0))
    assert follower.poll() == []
    append(job, line(1) + line(2))
    assert messages(follower.poll()) == ["2"]


def test_no_more_than_asked_for_come_at_once(job):
    append(job, "".join(line(number) for number in range(5)))
    follower = Follower(job)
    assert messages(follower.poll(2)) == ["0", "1"]
    assert messages(follower.poll(2)) == ["2", "3"]
    assert messages(follower.poll(2)) == ["4"]


@pytest.mark.parametrize("garbage", ["not json", "[1]", '{"event": "unknown"}', "\x00\x00", ""])
def test_a_line_that_is_no_event_becomes_a_warning_in_its_place(job, garbage):
    append(job, line(0) + garbage + "\n" + line(2))
    events = Follower(job).poll()
    assert len(events) == 3
    assert events[1]["level"] == "warning"
    assert garbage in events[1]["message"]


def test_bytes_that_are_no_utf8_become_a_warning(job):
    job.events.write_bytes(b"\xff\xfe\n")
    assert Follower(job).poll()[0]["level"] == "warning"


def test_an_endless_line_is_left_out_and_counted_once(job):
    append(job, line(0) + "x" * (LINE_LIMIT_BYTES + 5_000_000) + "\n" + line(2))
    events = Follower(job).poll()
    assert len(events) == 3
    assert "longer than any event" in events[1]["message"]
    assert events[2]["message"] == "2"


def test_a_line_that_a_dead_writer_tore_does_not_swallow_the_next_one(job):
    append(job, line(0) + '{"v": 1, "eve')
    EventLog(job.events).write("log", level="info", message="next")
    events = Follower(job).poll()
    assert events[1]["level"] == "warning"
    assert events[2]["message"] == "next"


def test_a_job_is_starting_until_its_processes_are_known(job):
    assert Follower(job).state() == "starting"


def processes(launcher):
    return Processes(launcher, launcher, 0.0)


def test_a_job_is_alive_while_its_launcher_is(job):
    job.write_processes(processes(identify(os.getpid())))
    assert Follower(job).state() == "alive"


def test_a_later_process_with_the_same_pid_is_not_the_launcher(job):
    me = identify(os.getpid())
    job.write_processes(processes(ProcessId(me.pid, me.start_ticks + 1, me.host)))
    assert Follower(job).state() == "gone"


def test_a_job_with_an_exit_has_ended_whoever_lives(job):
    job.write_processes(processes(identify(os.getpid())))
    job.write_exit(Exit(0, None))
    assert Follower(job).state() == "ended"


def test_a_launcher_on_another_host_is_judged_by_its_heartbeat(job):
    clock = [0.0]
    job.write_processes(processes(ProcessId(1, 1, "node-" + socket.gethostname())))
    follower = Follower(job, clock=lambda: clock[0])
    job.heartbeat.touch()
    assert follower.state() == "alive"
    clock[0] = 200.0
    os.utime(job.heartbeat, (1, 1))
    assert follower.state() == "alive"
    clock[0] = 321.0
    assert follower.state() == "gone"


def test_renewing_the_lease_changes_its_time(job):
    follower = Follower(job)
    follower.renew_lease()
    os.utime(job.lease, (1, 1))
    follower.renew_lease()
    assert job.lease.stat().st_mtime > 1


def test_remains_on_another_host_are_not_ours_to_end(job):
    job.write_processes(processes(ProcessId(1, 1, "elsewhere")))
    assert Follower(job).end_remains() == []
