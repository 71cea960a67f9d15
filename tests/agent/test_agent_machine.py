"""What an agent finds out at its start: its machine, its token, and how long it waits between tries."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from http.client import HTTPMessage
from pathlib import Path

import fake_nvidia_smi
import pytest
from clocks import Clock

import potato_ray
from potato_ray.agent import machine
from potato_ray.agent.answers import retry_after_s
from potato_ray.agent.errors import AgentMisconfigured, ServerUnreachable, Stopped
from potato_ray.agent.machine import describe, list_gpus, parse_gpus, python_version
from potato_ray.agent.packages import LOOK_AGAIN_S, MODULES, Packages
from potato_ray.agent.patience import MOST_ASKED_S, Patience
from potato_ray.agent.tokens import VARIABLE, read_token
from potato_ray.trainers import registry

HOST = socket.gethostname()


@pytest.fixture
def smi(tmp_path, monkeypatch):
    """A machine with an nvidia-smi; what it answers lies in the folder."""
    fake_nvidia_smi.install(tmp_path / "bin")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    monkeypatch.setenv("FAKE_SMI_DIR", str(tmp_path / "smi"))
    (tmp_path / "smi").mkdir()
    return tmp_path / "smi"


def test_gpus_are_listed_with_what_is_known_of_them(smi):
    (smi / "query.csv").write_text(
        "GPU-1111, NVIDIA A100, SXM, 40960, 40000\n"
        "GPU-2222, NVIDIA H100, [N/A], [Insufficient Permissions]\n"
        "Unable to determine the device handle for GPU0000:3B:00.0: Unknown Error\n"
    )
    assert list_gpus() == [
        {"uuid": "GPU-1111", "name": "NVIDIA A100, SXM", "total_mb": 40960, "free_mb": 40000},
        {"uuid": "GPU-2222", "name": "NVIDIA H100", "total_mb": None, "free_mb": None},
    ]


def test_a_driver_without_devices_has_no_gpus(smi):
    (smi / "query.csv").write_text("No devices were found\n")
    (smi / "code").write_text("6")
    assert list_gpus() == []


def test_a_driver_that_hangs_is_not_waited_for(smi):
    (smi / "delay_s").write_text("60")
    assert list_gpus(timeout_s=0.1) == []


def test_a_machine_without_a_driver_has_no_gpus(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda *_, **__: None)
    assert list_gpus() == []


def test_output_that_is_no_list_has_no_gpus():
    assert parse_gpus("GPU-1\n,,,\n\ufffd, a, b, c\nGPU-1, \n") == []


def test_a_machine_is_described(monkeypatch):
    monkeypatch.setattr(machine, "list_gpus", list)
    assert describe("5f", "3.8.18", Path("/work/dir"), Packages("/no/python")) == {
        "id": "5f",
        "host": HOST,
        "python": "3.8.18",
        "version": potato_ray.__version__,
        "gpus": [],
        "workdir": "/work/dir",
        "executable": "/no/python",
        "lacks": [],
    }


def test_what_trainers_need_and_the_workers_python_lacks_is_looked_for_now_and_then(tmp_path):
    python, clock = tmp_path / "python", Clock()
    python.write_text("#!/bin/sh\necho noise\necho 'lacks: torch peft'\n")
    python.chmod(0o755)
    packages = Packages(str(python), clock)
    assert packages.missing() == ["torch", "peft"]
    python.write_text("#!/bin/sh\necho 'lacks:'\n")
    clock.now += LOOK_AGAIN_S - 1
    assert packages.missing() == ["torch", "peft"]
    clock.now += 1
    assert packages.missing() == []


def test_the_packages_of_this_python_are_found():
    assert not {"numpy", "sklearn"} & set(Packages(sys.executable).missing())


def test_all_is_looked_for_that_a_trainer_of_ours_needs():
    ours = [found for name in registry.BUILT_IN if (found := registry.get_trainer(name))]
    assert {need.module for trainer in ours for need in trainer.requires} <= set(MODULES)


def test_the_version_of_an_interpreter_is_asked_for(tmp_path):
    link = tmp_path / "python"
    link.symlink_to(sys.executable)
    ours = "{}.{}.{}".format(*sys.version_info)
    assert python_version(str(link)) == python_version(sys.executable) == ours


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo 3.6.9", "is Python 3.6.9; 3.8 is needed"),
        ("echo hello", "is no usable Python: it ended with code 0"),
        ("exit 3", "is no usable Python: it ended with code 3"),
        ("sleep 60", "python did not answer within 0.2 s"),
    ],
)
def test_an_interpreter_that_cannot_be_used_is_refused(tmp_path, script, why):
    python = tmp_path / "python"
    python.write_text(f"#!/bin/sh\n{script}\n")
    python.chmod(0o755)
    with pytest.raises(AgentMisconfigured, match=why):
        python_version(str(python), timeout_s=0.2 if "sleep" in script else 10.0)


def test_an_interpreter_that_is_not_there_is_named():
    with pytest.raises(AgentMisconfigured, match=f"/no/python was not found on {HOST}"):
        python_version("/no/python")


def token_file(tmp_path, content, mode=0o600):
    path = tmp_path / "token"
    path.write_bytes(content)
    path.chmod(mode)
    return path


@pytest.mark.parametrize("end", [b"", b"\n", b"\r\n"])
def test_a_token_comes_from_a_file_without_its_line_end(tmp_path, end):
    assert read_token(token_file(tmp_path, b"prt_secret" + end), {}) == "prt_secret"


def test_a_token_leaves_the_environment_so_that_no_child_has_it(monkeypatch):
    monkeypatch.setenv(VARIABLE, "prt_secret")
    assert read_token() == "prt_secret"
    seen = subprocess.run(["env"], capture_output=True, text=True, check=True, timeout=10).stdout
    assert "prt_secret" not in seen


def test_a_file_goes_before_the_environment_which_is_cleared_all_the_same(tmp_path):
    environment = {VARIABLE: "prt_other"}
    assert read_token(token_file(tmp_path, b"prt_secret"), environment) == "prt_secret"
    assert environment == {}


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644])
def test_a_token_file_that_others_can_use_is_refused(tmp_path, mode):
    with pytest.raises(AgentMisconfigured) as refused:
        read_token(token_file(tmp_path, b"prt_secret", mode), {})
    assert refused.value.code == "token_file_open"
    assert "chmod 600" in refused.value.next_step


@pytest.mark.parametrize(
    "content",
    [b"", b"\n", b"prt_secret\n\n", b"prt secret", b"prt_secret\r\nX: y", b"prt_\xff", b"prt_secret" * 1000],
)
def test_what_can_be_no_token_is_refused_and_not_shown(tmp_path, content):
    with pytest.raises(AgentMisconfigured) as refused:
        read_token(token_file(tmp_path, content), {})
    assert "secret" not in str(refused.value)


def test_a_missing_token_is_told_with_what_to_do(tmp_path):
    with pytest.raises(AgentMisconfigured, match=VARIABLE) as refused:
        read_token(None, {})
    assert refused.value.code == "no_token"
    with pytest.raises(AgentMisconfigured, match="No such file"):
        read_token(tmp_path / "none", {})


def patience(clock=None, share=1.0, stop=None):
    return Patience(stop or threading.Event(), clock=clock or Clock(), random_share=lambda: share)


def test_waits_grow_up_to_a_limit():
    waits = patience()
    assert [waits.next_wait_s() for _ in range(8)] == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0]
    assert all(waits.next_wait_s() == 30.0 for _ in range(2000))


def test_waits_are_never_in_step():
    assert patience(share=0.0).next_wait_s() == 0.25
    assert patience(share=0.5).next_wait_s() == 0.375


def test_a_success_begins_a_new_series():
    clock = Clock()
    waits = patience(clock)
    waits.next_wait_s()
    clock.sleep(40.0)
    assert (waits.failures, waits.failing_for_s) == (1, 40.0)
    waits.success()
    assert (waits.failures, waits.failing_for_s, waits.next_wait_s()) == (0, 0.0, 0.5)


def test_a_server_may_ask_for_a_longer_wait_but_not_for_ever():
    waits = patience()
    assert waits.next_wait_s(retry_after_s=7.0) == 7.0
    assert waits.next_wait_s(retry_after_s=0.1) == 1.0
    assert waits.next_wait_s(retry_after_s=1e9) == MOST_ASKED_S


def test_a_wait_ends_when_the_agent_is_to_stop():
    stop = threading.Event()
    stop.set()
    with pytest.raises(Stopped):
        patience(stop=stop).wait(ServerUnreachable("It is away.", retry_after_s=60.0))


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        ("Fri, 31 Dec 1999 23:59:59 GMT", 10.0),
        ("Fri, 31 Dec 1999 23:59:00 GMT", 0.0),
        ("soon", None),
        ("-5", None),
        ("", None),
        ("9" * 40, None),
        ("Fri, 99 Dec 1999 23:59:59 GMT", None),
    ],
)
def test_a_server_says_in_two_ways_when_to_come_back(text, seconds):
    headers = HTTPMessage()
    headers["Retry-After"] = text
    assert retry_after_s(headers, now=946_684_789.0) == seconds
