"""Starting a launcher: once per folder, detached or in the foreground, and what a failed start says."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from job_folders import end_of, last, said, wait_for
from parts import need_python38

from potato_ray.job import start
from potato_ray.job.folder import read_json, write_json
from potato_ray.job.launcher import LaunchFailed, start_detached
from potato_ray.job.processes import is_alive


def foreground(job, **options):
    command = start.command(sys.executable, "launcher", str(job.path), "--foreground")
    return subprocess.Popen(command, stderr=subprocess.PIPE, text=True, **options)


def test_a_folder_is_launched_once(make_job):
    job = make_job("Silent")
    start_detached(job)
    with pytest.raises(LaunchFailed, match="launched already") as refused:
        start_detached(job)
    assert refused.value.code == "already_launched"


def test_a_folder_that_has_ended_is_not_launched_again(make_job):
    job = make_job()
    start_detached(job)
    end = end_of(job)
    with pytest.raises(LaunchFailed, match=r"exit\.json is there"):
        start_detached(job)
    assert job.read_exit() == end


def test_an_unreadable_spec_is_refused_before_anything_starts(make_job):
    job = make_job()
    write_json(job.spec, {"v": 99})
    with pytest.raises(LaunchFailed, match="version 99") as refused:
        start_detached(job)
    assert refused.value.code == "bad_spec"
    assert not job.process.exists()


def test_an_interpreter_that_is_not_there_is_named(make_job):
    with pytest.raises(LaunchFailed, match="no-such-python"):
        start_detached(make_job(), python="/no-such-python")


def test_an_interpreter_that_fails_is_quoted(make_job, tmp_path):
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho broken interpreter >&2\nexit 1\n", "utf-8")
    broken.chmod(0o755)
    with pytest.raises(LaunchFailed, match="broken interpreter"):
        start_detached(make_job(), python=str(broken))


def test_a_folder_that_is_not_there_is_refused(make_job):
    job = make_job()
    shutil.rmtree(job.path)
    with pytest.raises(LaunchFailed, match="could not be started"):
        start_detached(job)


def test_a_detached_launcher_survives_the_group_of_its_starter(make_job):
    job = make_job("Silent")
    code = (
        "import sys; from pathlib import Path; from potato_ray.job.launcher import start_detached; "
        "start_detached(Path(sys.argv[1])); import time; time.sleep(600)"
    )
    starter = subprocess.Popen([sys.executable, "-c", code, str(job.path)], start_new_session=True)
    said(job, "silent")
    os.killpg(starter.pid, signal.SIGKILL)
    starter.wait(10)
    processes = job.read_processes()
    assert is_alive(processes.launcher)
    assert is_alive(processes.worker)
    assert os.getsid(processes.launcher.pid) != starter.pid


def test_in_the_foreground_the_exit_code_is_the_workers(make_job):
    for trainer, code in (("Majority", 0), ("OutOfMemory", 5)):
        process = foreground(make_job(trainer))
        assert process.communicate(timeout=30)[1] == ""
        assert process.returncode == code


def test_in_the_foreground_a_sigterm_is_passed_on(make_job):
    job = make_job("Silent")
    process = foreground(job)
    said(job, "silent")
    process.terminate()
    process.communicate(timeout=10)
    assert process.returncode == 4
    assert job.read_exit().reason == "terminated"


def test_in_the_foreground_the_batch_scripts_environment_is_kept(make_job):
    job = make_job("Facts")
    environment = {**os.environ, "OMP_NUM_THREADS": "3", "CUDA_VISIBLE_DEVICES": "1"}
    process = foreground(job, env=environment)
    process.communicate(timeout=30)
    messages = job.events.read_text("utf-8")
    assert "OMP_NUM_THREADS=3" in messages
    assert "CUDA_VISIBLE_DEVICES=1" in messages


def test_in_the_foreground_an_unreadable_spec_is_left_in_the_folder(make_job):
    job = make_job()
    write_json(job.spec, {"v": 99})
    process = foreground(job)
    assert "version 99" in process.communicate(timeout=10)[1]
    assert process.returncode == 2
    assert job.read_exit().code == 2
    assert last(job, "error")["code"] == "bad_spec"


def test_the_launcher_can_be_started_from_a_shell(make_job):
    job = make_job()
    command = [sys.executable, "-m", "potato_ray.job.launcher", str(job.path)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    assert f"launcher {read_json(job.process)['launcher']['pid']}" in printed
    assert end_of(job).code == 0


def test_the_whole_thing_runs_under_python_3_8(make_job, tmp_path):
    python = need_python38()
    code = tmp_path / "code"
    shutil.copytree(start.code_root(start.__file__) + "/potato_ray", code / "potato_ray")
    job = make_job(max_ram_mb=512, max_wall_s=60.0)
    command = [python, str(code / "potato_ray/job/start.py"), "launcher", str(job.path)]
    subprocess.run(command, check=True, timeout=30, stdout=subprocess.DEVNULL)
    assert end_of(job).code == 0
    assert any("Python 3.8" in line for line in job.events.read_text("utf-8").splitlines())
    wait_for(lambda: last(job, "result"), "the result")


def test_a_worker_can_be_run_by_hand_to_look_at_a_failure(make_job):
    job = make_job("Refusing")
    command = [sys.executable, "-m", "potato_ray.job.worker", str(job.path)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=30, env=environment, check=False)
    assert done.returncode == 1
    assert "TrainerError: The texts are empty." in done.stderr
