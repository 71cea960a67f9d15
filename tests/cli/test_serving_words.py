"""What a server says when it starts: where the key is, and what is risky."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from potato_ray.cli import serving
from potato_ray.config import ProjectConfig, load
from potato_ray.server.listening import bind

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., ProjectConfig]:
    def make(**top: Any) -> ProjectConfig:
        body = yaml.safe_load((PROJECT / "config.yaml").read_text("utf-8"))
        body.pop("admin_api_key", None)
        body.update(task_dir=str(PROJECT), **top)
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(body), "utf-8")
        return load(tmp_path / "config.yaml")

    return make


def test_the_key_itself_is_never_said(
    make_config: Callable[..., ProjectConfig], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("POTATO_ADMIN_API_KEY", raising=False)
    config = make_config(admin_api_key="secret")
    assert serving.where_the_key_is(config) == f"admin_api_key in {config.path}"
    assert serving.where_the_key_is(make_config()) == str(PROJECT / "admin_api_key.txt")
    monkeypatch.setenv("POTATO_ADMIN_API_KEY", "secret")
    assert serving.where_the_key_is(make_config()) == "the environment variable POTATO_ADMIN_API_KEY"


class Announcing(serving.Serving):
    """A server that only says what it says at its start."""

    def __init__(self, config: ProjectConfig, host: str) -> None:
        self.config = config
        with bind(host, 0) as self.listener:
            self._announce()


EVERYWHERE = "0.0.0.0"  # noqa: S104


@pytest.mark.parametrize(
    ("host", "debug", "warned"),
    [("127.0.0.1", True, False), (EVERYWHERE, False, False), (EVERYWHERE, True, True)],
)
def test_debug_is_warned_of_where_others_can_reach_the_server(
    make_config: Callable[..., ProjectConfig], capsys: Any, host: str, debug: bool, warned: bool
) -> None:
    Announcing(make_config(debug=debug), host)
    said = capsys.readouterr()
    assert ("Warning: debug is true" in said.err) == warned
    assert said.out.startswith("Training page: http://127.0.0.1:")


def test_a_project_without_training_is_served_and_says_so(
    make_config: Callable[..., ProjectConfig], capsys: Any
) -> None:
    Announcing(make_config(model_training={"enabled": False}), "127.0.0.1")
    assert "answer 404" in capsys.readouterr().err


def test_a_terminal_that_is_gone_keeps_nothing_from_ending(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        def write(self, text: str) -> int:
            raise OSError(5, "Input/output error")

    monkeypatch.setattr(sys, "stderr", Gone())
    serving.tell("stopping")
