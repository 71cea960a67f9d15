"""The spare worker: taken when it fits, passed over when it does not, gone with its owner."""

from __future__ import annotations

import os
import signal
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from job_folders import end_of, logged, said, wait_for
from spares import spare_pids

from potato_ray.job.launcher import LaunchFailed, start_detached
from potato_ray.job.processes import is_alive
from potato_ray.job.spare import SpareKeeper, take_spare

HERE = Path(__file__).parent
ENV = {"PYTHONPATH": str(HERE)}


@pytest.fixture
def keeper(tmp_path):
    keeper = SpareKeeper(tmp_path, trainers=["stub_trainers:Preloading"], env=ENV)
    keeper.ensure()
    assert keeper.wait_ready(20)
    yield keeper
    keeper.close()


def test_a_job_that_fits_is_taken_and_finds_its_libraries_loaded(make_job, keeper):
    job = make_job("Preloading")
    launcher = keeper.take(job)
    assert launcher == job.read_processes().launcher
    assert end_of(job).code == 0
    assert "colorsys was loaded" in logged(job)


def test_a_spare_serves_once_and_the_next_one_takes_its_place(make_job, keeper):
    assert keeper.take(make_job()) is not None
    second = make_job()
    assert keeper.take(second) is None
    keeper.ensure()
    assert keeper.wait_ready(20)
    assert keeper.take(second) is not None
    assert end_of(second).code == 0


def test_ensure_keeps_the_spare_that_waits(keeper):
    before = spare_pids(keeper.address)
    keeper.ensure()
    assert spare_pids(keeper.address) == before
    assert len(before) == 1


def test_a_spare_that_nobody_waited_for_is_replaced_after_its_job(make_job, tmp_path):
    keeper = SpareKeeper(tmp_path, trainers=["stub_trainers:Preloading"], env=ENV)
    keeper.ensure()
    try:
        first, job = keeper.address, make_job("Preloading")
        assert keeper._line.recv(1, socket.MSG_PEEK)  # its word that it is ready, which nobody reads
        assert take_spare(first, job) is not None
        keeper.ensure()
        assert keeper.address not in (None, first)
        assert end_of(job).code == 0
    finally:
        keeper.close()


def test_any_process_that_knows_the_address_may_take_the_spare(make_job, keeper):
    job = make_job("Preloading")
    start_detached(job, spare=keeper.address)
    end_of(job)
    assert "colorsys was loaded" in logged(job)


@pytest.mark.parametrize("difference", [{"num_threads": 3}, {"env": {"MODEL_SIZE": "large"}}])
def test_a_job_with_another_environment_starts_cold(make_job, keeper, difference):
    job = make_job("Preloading", **difference)
    assert keeper.take(job) is None
    start_detached(job, spare=keeper.address)
    end_of(job)
    assert "colorsys was not loaded" in logged(job)
    assert keeper.take(make_job()) is not None


def test_another_interpreter_starts_cold(make_job, keeper):
    assert take_spare(keeper.address, make_job(), python="/usr/bin/other-python") is None


def test_a_spare_takes_the_cards_of_its_job(make_job, keeper):
    job = make_job("Facts", gpu_uuids=("GPU-7",))
    assert keeper.take(job) is not None
    end_of(job)
    assert "CUDA_VISIBLE_DEVICES=GPU-7" in logged(job)
    assert f"cwd: {job.path}" in logged(job)


def test_limits_hold_for_a_taken_spare(make_job, keeper):
    job = make_job("Silent", max_wall_s=0.5)
    assert keeper.take(job) is not None
    assert end_of(job, 5).reason == "wall_clock"


def test_a_folder_that_was_launched_is_not_taken(make_job, keeper):
    job = make_job()
    start_detached(job)
    end_of(job)
    assert keeper.take(job) is None
    with pytest.raises(LaunchFailed, match="already"):
        start_detached(job, spare=keeper.address)


def test_a_spare_that_died_is_noticed_and_the_start_is_cold(make_job, keeper):
    for pid in spare_pids(keeper.address):
        os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not keeper.wait_ready(0), "the keeper's notice", 5)
    job = make_job()
    assert keeper.take(job) is None
    start_detached(job, spare=keeper.address)
    assert end_of(job).code == 0
    keeper.ensure()
    assert keeper.wait_ready(20)


@pytest.mark.alone
def test_an_unused_spare_ends_when_it_is_let_go(keeper):
    address = keeper.address
    keeper.close()
    wait_for(lambda: not spare_pids(address), "the end of the spare", 2)
    assert keeper.address is None
    assert not address.parent.exists()


def test_a_taken_spare_goes_on_without_its_keeper(make_job, keeper):
    job = make_job("Silent")
    launcher = keeper.take(job)
    said(job, "silent")
    keeper.close()
    assert is_alive(launcher)
    job.request_cancel("asked", grace_s=1.0)
    assert end_of(job, 5).reason == "cancelled"


@pytest.mark.alone
def test_the_worker_of_a_taken_spare_dies_with_its_launcher(make_job, keeper):
    job = make_job("Silent")
    launcher = keeper.take(job)
    said(job, "silent")
    os.kill(launcher.pid, signal.SIGKILL)
    worker = job.read_processes().worker
    wait_for(lambda: not is_alive(worker), "the worker's death", 2)


@pytest.mark.alone
def test_a_spare_without_a_job_is_gone_within_a_second_of_its_owners_death(tmp_path):
    code = (
        "import sys, time; from pathlib import Path; from potato_ray.job.spare import SpareKeeper; "
        "keeper = SpareKeeper(Path(sys.argv[1]), trainers=[]); keeper.ensure(); "
        "assert keeper.wait_ready(20); print(keeper.address, flush=True); time.sleep(600)"
    )
    owner = subprocess.Popen([sys.executable, "-c", code, str(tmp_path)], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    address = Path(owner.stdout.readline().decode().strip())
    assert len(spare_pids(address)) == 1
    owner.kill()
    wait_for(lambda: not spare_pids(address), "the end of the spare", 1)
    wait_for(lambda: not address.parent.exists(), "the removal of its folder", 1)
    owner.communicate(timeout=5)


def test_what_a_spare_that_was_killed_with_its_keeper_has_left_goes_with_the_next_one(keeper, tmp_path):
    note = tmp_path / "spare.where"
    assert note.read_text("utf-8") == str(keeper.address)
    left = Path(tempfile.mkdtemp(prefix="spare-", dir="/tmp")) / "socket"
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as nobody:
        nobody.bind(str(left))
    note.write_text(str(left), "utf-8")
    second = SpareKeeper(tmp_path, trainers=["stub_trainers:Preloading"], env=ENV)
    second.ensure()
    assert not left.parent.exists()
    second.close()


def test_a_spare_of_another_keeper_that_waits_is_left_alone(keeper, tmp_path):
    other = SpareKeeper(tmp_path, trainers=["stub_trainers:Preloading"], env=ENV)
    other.ensure()
    assert keeper.address.exists()
    noted = (tmp_path / "spare.where").read_text("utf-8").splitlines()
    assert noted == [str(keeper.address), str(other.address)]  # should it be killed, the next one knows
    other.close()


def test_a_folder_is_noted_before_it_is_there(tmp_path, monkeypatch):
    monkeypatch.setattr(Path, "mkdir", lambda *_: os._exit(9))
    child = os.fork()
    if not child:
        try:
            SpareKeeper(tmp_path, trainers=["stub_trainers:Preloading"], env=ENV).ensure()
        finally:
            os._exit(1)  # it must never go on with the tests
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
    assert "/spare-" in (tmp_path / "spare.where").read_text("utf-8")


def test_only_the_owner_may_talk_to_a_spare(keeper):
    assert stat.S_IMODE(keeper.address.stat().st_mode) == 0o600
    assert stat.S_IMODE(keeper.address.parent.stat().st_mode) == 0o700


def test_garbage_does_not_end_a_spare(make_job, keeper):

    with socket.socket(socket.AF_UNIX) as line:
        line.connect(str(keeper.address))
        line.sendall(b"nonsense\n")
        assert b"false" in line.recv(1000)
    assert keeper.take(make_job()) is not None
