"""Commands for hosts that are reached by ssh, with no server running."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import potato_ray
from ssh_lab import PLUGIN
from sshd import ALIAS, Sshd, own_account
from whole_runs import folder_of, projects, reader_of

from potato_ray.agent_place import place_of
from potato_ray.config import ProjectConfig
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray


@pytest.fixture(scope="module")
def remote_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("host") / "training"


@pytest.fixture(scope="module")
def config(remote_dir: Path) -> Iterator[ProjectConfig]:
    """A project with a host that works, and one without a Python; ssh finds both."""
    gpu = {
        "type": "ssh",
        "host": ALIAS,
        "python": sys.executable,
        "remote_dir": str(remote_dir),
        "env": {"PYTHONPATH": str(PLUGIN)},
    }
    backends = {"gpu": gpu, "no-python": {**gpu, "python": "python3.99"}}
    with Sshd() as sshd, projects() as make_project, pytest.MonkeyPatch.context() as environment:
        sshd.use(environment)
        yield make_project(backends=backends)


def train(config: ProjectConfig, backend: str) -> tuple[int, str]:
    """Its exit code, and what it has said."""
    what = ("--trainer", "rehearsal", "--schema", "sentiment", "--backend", backend)
    told = potato_ray("training", "run", config.path, *what)
    return told.returncode, told.stdout + told.stderr


def test_a_run_on_a_host_needs_no_server(config: ProjectConfig, remote_dir: Path) -> None:
    code, said = train(config, "gpu")
    assert code == 0, said
    assert "held-out score" in said
    assert f"waiting for the agent on {ALIAS}" in said
    [run] = reader_of(config).runs()
    assert (run.state, run.backend) == (State.SUCCESS, "gpu")
    assert (folder_of(config, run.run_id).artifacts / "model.json").is_file()
    assert list((remote_dir / "runs").iterdir()) == []
    assert reader_of(config).run_tokens() == []
    assert not place_of(config.state_dir).exists()


@pytest.mark.long
def test_a_run_that_cannot_begin_exits_with_1_and_says_why(config: ProjectConfig) -> None:
    code, said = train(config, "no-python")
    assert code == 1
    assert f"python3.99 was not found on {ALIAS}" in said


def test_the_check_of_a_host_that_a_run_could_use_exits_with_0(config: ProjectConfig) -> None:
    told = potato_ray("training", "check", "gpu", config.path)
    assert told.returncode == 0, told.stdout + told.stderr
    assert f"ok  ssh: logged in to {platform.node()} as {own_account().name}" in told.stdout
    assert f"ok  python: Python {sys.version.split()[0]} ({sys.executable})" in told.stdout
    assert "MB free for" in told.stdout
    assert "PATH there: " in told.stdout
    assert told.stdout.endswith("A run could start.\n")


def test_the_check_prints_the_same_as_data(config: ProjectConfig) -> None:
    told = potato_ray("training", "check", "gpu", config.path, "--json")
    assert told.returncode == 0, told.stdout + told.stderr
    report = json.loads(told.stdout)
    assert (report["ok"], report["backend"], report["type"]) == (True, "gpu", "ssh")
    assert {"ssh", "socket", "python", "device", "disk", "path"} <= {
        each["name"] for each in report["checks"]
    }


@pytest.mark.parametrize("arguments", [(), ("--json",)])
def test_the_check_of_a_host_that_no_run_could_use_exits_with_1(
    config: ProjectConfig, arguments: tuple[str, ...]
) -> None:
    told = potato_ray("training", "check", "no-python", config.path, *arguments)
    assert told.returncode == 1
    assert f"python3.99 was not found on {ALIAS}" in told.stdout
    assert "Give the backend's `python` an interpreter" in told.stdout
