"""A server with what a base install brings: it works, and says of the other trainers what they lack."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import httpx
import pytest
from server_process import API, ServerProcess
from training_libraries import TRAINING
from whole_runs import ended, projects

from potato_ray.registry.states import State
from potato_ray.trainers import registry

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def server() -> Iterator[ServerProcess]:
    with (
        projects() as make_project,
        contextlib.closing(ServerProcess(make_project(), as_installed=True)) as server,
    ):
        yield server.wait_ready()


def get(server: ServerProcess, path: str) -> httpx.Response:
    return httpx.get(server.url + path, headers=server.headers(), timeout=40.0)


def start(server: ServerProcess, trainer: str) -> httpx.Response:
    body = {"trainer": trainer, "schemas": ["sentiment"], "backend": "local"}
    return httpx.post(f"{server.url}{API}/runs", json=body, headers=server.headers(), timeout=40.0)


def test_nobody_tries_to_import_what_trainers_import(server: ServerProcess) -> None:
    run = ended(server.config, start(server, "sklearn-text").json()["run_id"])
    assert run.state == State.SUCCESS, run.error
    assert get(server, "/admin/training").status_code == 200, server.said
    assert get(server, f"/admin/training/runs/{run.run_id}").status_code == 200
    assert get(server, f"{API}/trainers").status_code == 200
    assert [line for line in server.tried if line.split()[0].partition(".")[0] in TRAINING] == []


@pytest.mark.parametrize("name", sorted(set(registry.BUILT_IN) - {"sklearn-text"}))
def test_a_trainer_that_lacks_packages_is_offered_with_the_line_that_installs_them(
    server: ServerProcess, name: str
) -> None:
    [told] = [each for each in get(server, f"{API}/trainers").json()["trainers"] if each["name"] == name]
    assert not told["available"]
    assert told["reason"]
    assert "pip install " in told["install_hint"]


def test_its_start_is_refused(server: ServerProcess) -> None:
    answer = start(server, "hf-text-classification")
    assert (answer.status_code, answer.json()["error_code"]) == (409, "missing_dependency")
    assert answer.json()["next_step"].endswith(" -m pip install torch transformers peft accelerate")
