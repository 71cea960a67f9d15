"""A run whose model stays on its host, through a real sshd: it is fetched later, and removed over there."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from server_process import API
from ssh_lab import SshLab
from sshd import Sshd
from whole_runs import folder_of, projects

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SshLab]:
    """A host that keeps its models."""
    remote_dir = tmp_path_factory.mktemp("host") / "training"
    keys = {"fetch_artifacts": False}
    with Sshd() as sshd, projects() as make_project, SshLab(sshd, make_project, remote_dir, keys) as lab:
        yield lab


def ask(lab: SshLab, run_id: str, path: str = "", method: str = "GET") -> dict[str, Any]:
    url = f"{lab.server.url}{API}/runs/{run_id}/remote-files{path}"
    answer = httpx.request(method, url, headers=lab.server.headers(), timeout=60.0)
    assert answer.status_code in (200, 202), answer.text
    return dict(answer.json())


def test_a_model_that_stays_is_fetched_byte_for_byte_and_then_removed_from_the_host(lab: SshLab) -> None:
    run = lab.succeeded(lab.start())
    assert run.artifact_uri.startswith("gpubox:/")
    listed = ask(lab, run.run_id)
    assert run.artifact_uri == f"gpubox:{listed['folder']}"
    assert {each["path"] for each in listed["files"]} >= {"model.skops", "model_card.json"}
    for each in listed["files"]:
        ask(lab, run.run_id, f"/{each['path']}", "POST")
    deadline = time.monotonic() + 30
    while {each["state"] for each in ask(lab, run.run_id)["files"]} != {"here"}:
        assert time.monotonic() < deadline, ask(lab, run.run_id)
        time.sleep(0.05)
    there, here = lab.job(run.run_id) / "artifacts", folder_of(lab.config, run.run_id).artifacts
    for each in listed["files"]:
        assert (here / each["path"]).read_bytes() == (there / each["path"]).read_bytes()
    ask(lab, run.run_id, method="DELETE")
    assert lab.nothing_is_left(run.run_id)
