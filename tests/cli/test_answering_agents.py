"""A command that holds a project without a server: agents on other machines are answered before all else."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

import potato_ray.actors.session
from potato_ray.agent_place import place_of, trouble_of
from potato_ray.backends.grants import Means
from potato_ray.backends.remote_note import followed_here, is_followed
from potato_ray.cli import running
from potato_ray.config import ProjectConfig, load
from potato_ray.errors import PotatoRayError, RunFailed
from potato_ray.server.agent_socket import AgentSocket
from potato_ray.starting import StartRequest

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
GPU = {"gpu": {"type": "ssh", "host": "gpu1"}}
WANTED = StartRequest(trainer="sklearn-text", schemas=("sentiment",))


class BroughtUp(Exception):
    """The controller would start now."""


class NoSession:
    """Holds nothing, and starts nothing; `seen` are the sockets that were there when it should have."""

    seen: list[bool]

    def __init__(self, config: ProjectConfig, purpose: str) -> None:
        self.config = config

    def hold(self) -> None: ...

    def bring_up(self) -> None:
        self.seen.append(place_of(self.config.state_dir).is_socket())
        raise BroughtUp

    def close(self) -> None: ...


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., ProjectConfig]:
    def make(backends: dict[str, Any]) -> ProjectConfig:
        shutil.copytree(PROJECT, tmp_path / "p")
        path = tmp_path / "p" / "config.yaml"
        body = yaml.safe_load(path.read_text("utf-8"))
        body["model_training"]["backends"] = backends
        path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
        return load(path)

    return make


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    NoSession.seen = []
    monkeypatch.setattr(potato_ray.actors.session, "Session", NoSession)
    return NoSession.seen


def no_socket(*_: Any) -> None:
    raise OSError(28, "No space left on device")


def test_a_local_run_answers_agents_of_other_runs_before_the_controller_takes_them_up(
    make_config: Callable[..., ProjectConfig], seen: list[bool]
) -> None:
    config = make_config(GPU)
    config.state_dir.mkdir(parents=True, exist_ok=True)
    (config.state_dir / "agents.where").write_text("/tmp/of-a-server-before/agents.sock")
    with pytest.raises(BroughtUp):
        running._train_here(config, WANTED, "local")
    assert seen == [True]
    assert not place_of(config.state_dir).exists()


def test_a_project_without_other_machines_opens_no_socket(
    make_config: Callable[..., ProjectConfig], seen: list[bool]
) -> None:
    with pytest.raises(BroughtUp):
        running._train_here(make_config({}), WANTED, "local")
    assert seen == [False]


def test_without_a_socket_a_local_run_goes_on_and_one_over_ssh_does_not(
    make_config: Callable[..., ProjectConfig], seen: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    config = make_config(GPU)
    monkeypatch.setattr(AgentSocket, "_bind", no_socket)
    with pytest.raises(BroughtUp):
        running._train_here(config, WANTED, "local")
    with pytest.raises(PotatoRayError, match="cannot listen on its socket"):
        running._train_here(config, WANTED, "gpu")
    assert seen == [False]


def test_a_run_over_ssh_says_why_there_is_no_socket(
    make_config: Callable[..., ProjectConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    state_dir = make_config(GPU).state_dir
    with monkeypatch.context() as patch:
        patch.setattr(AgentSocket, "_bind", no_socket)
        with pytest.raises(PotatoRayError):
            AgentSocket(state_dir)
    means = Means(lambda *_: None, place_of(state_dir), state_dir, trouble_of(state_dir))  # type: ignore[arg-type]
    with pytest.raises(RunFailed, match="no socket for agents") as failed:
        means.require_socket()
    assert "No space left on device" in failed.value.evidence
    bound = AgentSocket(state_dir)
    assert trouble_of(state_dir) == ""
    bound.close()
    assert "is not there" in trouble_of(state_dir)


def test_a_host_is_cleared_up_before_the_command_ends(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with contextlib.ExitStack() as supervisor:
        supervisor.enter_context(followed_here(tmp_path))
        slept: list[float] = []

        def sleep(seconds: float) -> None:
            slept.append(seconds)
            if len(slept) == 3:
                supervisor.close()

        running._let_clear_up(tmp_path, sleep)
    assert len(slept) == 3
    assert capsys.readouterr().err.count("clearing up on the host") == 1


def test_ctrl_c_leaves_the_clearing_up_to_others(tmp_path: Path) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    with followed_here(tmp_path):
        running._let_clear_up(tmp_path, interrupted)
        assert is_followed(tmp_path)
