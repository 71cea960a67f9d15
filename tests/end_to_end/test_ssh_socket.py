"""The socket that leads from a host to the server: for the agent of one run, and for nobody else."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from agent_calls import AgentCalls
from parts import missing
from server_process import API
from ssh_lab import SshLab
from sshd import Sshd
from whole_runs import folder_of, in_step, projects, wait_until

from potato_ray.agent_place import place_of
from potato_ray.agent_tokens import digest_of
from potato_ray.config.admin_key import find_admin_key
from potato_ray.job.folder import read_json
from potato_ray.mirror.folder import MirrorFolder

pytestmark = pytest.mark.ray

NOBODY = 65534
TOKEN = re.compile(rb"prt_[A-Za-z0-9_-]{43}")
CONNECT = """
import os, socket, sys
os.setgroups([]); os.setgid(int(sys.argv[2])); os.setuid(int(sys.argv[2]))
socket.socket(socket.AF_UNIX).connect(sys.argv[1])
"""
PAGES = (
    "/admin/training",
    f"{API}/runs",
    f"{API}/backends",
    f"{API}/tokens",
    "/health",
    "/openapi.json",
    "/docs",
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshLab]:
    """A server that takes whoever is on its machine for an admin, and its host."""
    remote_dir = tmp_path_factory.mktemp("host") / "training"
    with (
        Sshd() as sshd,
        projects() as make_project,
        SshLab(sshd, make_project, remote_dir, debug=True, max_concurrent_runs=2) as lab,
    ):
        yield lab


@pytest.fixture(scope="module")
def run_ids(lab: SshLab) -> Iterator[list[str]]:
    """Two runs at work on the host."""
    ids = [lab.start("wait") for _ in range(2)]
    for run_id in ids:
        wait_until(lab.config, run_id, in_step("rehearsing"))
    yield ids
    for run_id in ids:
        lab.go(run_id)
        lab.succeeded(run_id)


@pytest.fixture
def socket(lab: SshLab, run_ids: list[str]) -> Path:
    """The first run's, on the host."""
    note = read_json(lab.job(run_ids[0]).parents[1] / "agent.json")
    assert note is not None
    return Path(note["socket"])


@pytest.fixture
def inside(socket: Path) -> Iterator[httpx.Client]:
    """Whoever got as far as the socket."""
    with httpx.Client(
        transport=httpx.HTTPTransport(uds=str(socket)), base_url="http://localhost", timeout=20
    ) as client:
        yield client


@pytest.fixture
def calls(lab: SshLab, run_ids: list[str], inside: httpx.Client) -> AgentCalls:
    """The first run's agent, in all that it can do."""
    lease = read_json(MirrorFolder(folder_of(lab.config, run_ids[0]).path).lease)
    assert lease is not None
    calls = AgentCalls(inside, token_of(lab, run_ids[0]), lease["lease"])
    calls.run_id = run_ids[0]
    return calls


def token_of(lab: SshLab, run_id: str) -> str:
    """The token of a run, which is in the memory of its agent and nowhere else: root can look there."""
    if os.geteuid():
        missing("only root reads the memory of another process")
    [known] = [each for each in lab.reader.run_tokens() if each.run_id == run_id]
    process = Path(f"/proc/{lab.agent_pid(run_id)}")
    with (process / "mem").open("rb", buffering=0) as memory:
        for line in (process / "maps").read_text().splitlines():
            start, end = (int(each, 16) for each in line.split()[0].split("-"))
            if " rw" not in line:
                continue
            memory.seek(start)
            for found in TOKEN.findall(memory.read(end - start)):
                if digest_of(found.decode()) == known.token_sha256:
                    return str(found.decode())
    raise AssertionError("the agent has no token of its run")


def test_both_ends_of_the_way_are_for_their_owners_alone(lab: SshLab, socket: Path) -> None:
    for end in (socket, place_of(lab.config.state_dir).resolve()):
        assert end.is_socket()
        assert (end.stat().st_mode & 0o777, end.stat().st_uid) == (0o600, os.getuid())
        assert (end.parent.stat().st_mode & 0o777, end.parent.stat().st_uid) == (0o700, os.getuid())


def test_another_account_cannot_connect(socket: Path) -> None:
    if os.geteuid():
        missing("another account needs root")

    def connect(uid: int) -> str:
        command = [sys.executable, "-c", CONNECT, str(socket), str(uid)]
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stderr

    assert "PermissionError" in connect(NOBODY)
    assert connect(0) == ""


@pytest.mark.parametrize("path", PAGES)
def test_no_page_answers_whatever_is_shown(lab: SshLab, calls: AgentCalls, path: str) -> None:
    key = {"X-API-Key": find_admin_key(lab.config) or ""}
    for headers in ({}, key, calls.headers):
        for method in ("GET", "POST"):
            assert calls.client.request(method, path, headers=headers).status_code == 404


def test_who_is_an_admin_by_his_address_is_none_through_the_socket(lab: SshLab, inside: httpx.Client) -> None:
    """The server is a debug server, so what is refused above would be answered elsewhere."""
    assert httpx.get(f"{lab.server.url}{API}/runs", timeout=20).status_code == 200
    assert inside.get(f"{API}/runs").status_code == 404


def test_the_agent_reaches_its_own_run_and_no_other(calls: AgentCalls, run_ids: list[str]) -> None:
    assert calls.bundle().status_code == 200
    calls.run_id = run_ids[1]
    for answer in (calls.bundle(), calls.progress(), calls.result(), calls.predictions()):
        assert answer.status_code == 404, answer.text


def test_nobody_without_a_token_reaches_a_run(calls: AgentCalls) -> None:
    for token in ("prt_", "prt_" + "a" * 43):
        calls.token = token
        for answer in (calls.bundle(), calls.progress(), calls.claim(0)):
            assert answer.status_code == 401, answer.text
