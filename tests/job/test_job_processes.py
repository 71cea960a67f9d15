from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import asdict, replace

import pytest
from job_folders import wait_for
from parts import need_command

from potato_ray.job import processes
from potato_ray.job.folder import ProcessId
from potato_ray.job.processes import identify, is_alive, parse_ps

SLEEP = [sys.executable, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def child():
    process = subprocess.Popen(SLEEP, env={**os.environ, "MARK_OF_A_TEST": str(os.getpid())})
    yield process
    process.kill()
    process.wait()


def test_this_process_is_alive():
    me = identify(os.getpid())
    assert me.pid == os.getpid()
    assert is_alive(me)


def test_a_process_of_an_earlier_start_of_the_machine_is_dead():
    me = identify(os.getpid())
    assert me.boot
    assert not is_alive(replace(me, boot="another"))
    assert is_alive(replace(me, boot=""))


def test_where_the_present_start_has_no_name_a_noted_one_tells_nothing(monkeypatch):
    me = identify(os.getpid())
    monkeypatch.setattr(processes, "boot_id", lambda: "")
    assert is_alive(me)


def test_a_process_that_was_noted_is_read_with_what_is_known_of_it():
    body = {"pid": 7, "start_ticks": 9, "host": "gpu1", "boot": "first", "of_a_later_version": 1}
    assert asdict(ProcessId.from_json(body)) == {name: body[name] for name in list(body)[:4]}
    assert ProcessId.from_json({**body, "boot": None}).boot == ""


def test_a_killed_process_is_dead_even_before_it_is_reaped(child):
    process = identify(child.pid)
    assert is_alive(process)
    child.kill()
    wait_for(lambda: not is_alive(process), "its death", 5)
    assert child.pid not in processes.descendants(os.getpid())


def test_nobody_has_an_impossible_pid():
    assert identify(2**22 + 1) is None


def test_descendants_and_their_memory_are_found(child):
    assert child.pid in processes.descendants(os.getpid())
    wait_for(lambda: processes.resident_mb([child.pid]) > 5, "its memory", 5)
    assert 0 < processes.proportional_mb([child.pid]) <= processes.resident_mb([child.pid]) + 1
    assert processes.high_water_mb(child.pid) >= processes.resident_mb([child.pid]) - 1


def test_the_slow_way_finds_the_same_descendants(child, monkeypatch):
    monkeypatch.setattr(processes, "_CHILDREN_ARE_LISTED", False)
    assert child.pid in processes.descendants(os.getpid())


def test_a_marked_process_is_found_and_ended(child):
    mark = f"MARK_OF_A_TEST={os.getpid()}"
    wait_for(lambda: processes.marked([mark]) == [child.pid], "its environment", 5)
    assert processes.end_marked([mark]) == []
    assert child.wait(5) == -9


def test_a_marked_process_that_is_older_than_the_job_is_spared(child):
    mark = f"MARK_OF_A_TEST={os.getpid()}"
    later = identify(child.pid).start_ticks + 1
    assert processes.end_marked([mark], not_before=later) == []
    assert is_alive(identify(child.pid))


def test_ps_is_read_where_there_is_no_proc(monkeypatch, child):
    need_command("ps")
    monkeypatch.setattr(processes, "_HAS_PROC", False)
    monkeypatch.setattr(processes, "_CHILDREN_ARE_LISTED", False)
    process = identify(child.pid)
    assert is_alive(process)
    assert child.pid in processes.descendants(os.getpid())
    assert processes.resident_mb([child.pid]) > 0


def test_the_output_of_ps_on_macos_is_read():
    text = "  501     1 Ss   12345 Mon Nov  3 09:05:01 2025    \n  77 501 Z  0 Mon Nov  3 09:05:02 2025\n\n"
    rows = parse_ps(text)
    assert [(row.pid, row.parent, row.state) for row in rows] == [(501, 1, "S"), (77, 501, "Z")]
    assert rows[0].start_ticks == 1762160701
    assert rows[0].rss_mb == pytest.approx(12345 / 1024)
