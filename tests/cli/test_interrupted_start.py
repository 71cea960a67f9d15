"""Ctrl-C before a run was made says that there is none."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from potato_ray.actors import session
from potato_ray.cli.running import run_training
from potato_ray.config import ProjectConfig


def interrupted_start(project: ProjectConfig, number: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """What `training run` answers when a signal comes while Ray starts."""
    # A background job of a shell ignores Ctrl-C, and so does what it starts.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)

    def bring_up(*_: Any) -> None:
        signal.raise_signal(number)

    monkeypatch.setattr(session.Session, "bring_up", bring_up)
    try:
        return run_training(
            project.path, "sklearn-text", ["sentiment"], (), "", accept_licence=False, as_json=False
        )
    finally:
        signal.signal(signal.SIGINT, before)


def test_ctrl_c_while_ray_starts_says_that_no_run_was_made(
    project: ProjectConfig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(KeyboardInterrupt):
        interrupted_start(project, signal.SIGINT, monkeypatch)
    assert capsys.readouterr().err.endswith("starting\nstopped; no run was made\n")


def test_sigterm_while_ray_starts_ends_with_its_own_code(
    project: ProjectConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert interrupted_start(project, signal.SIGTERM, monkeypatch) == 143
