"""A project to control."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from potato_ray.config import load
from potato_ray.config.models import ProjectConfig

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"


@pytest.fixture
def config(tmp_path: Path) -> ProjectConfig:
    shutil.copytree(PROJECT, tmp_path / "p")
    return load(tmp_path / "p" / "config.yaml")


@pytest.fixture
def agent_config(config: ProjectConfig) -> ProjectConfig:
    """The same project with two backends for agents: ws, where a run waits 30 s for one, and other."""
    text = config.path.read_text()
    backends = "  backends: {ws: {type: agent, queue_timeout_s: 30}, other: {type: agent}}\n"
    assert "model_training:\n" in text
    config.path.write_text(text.replace("model_training:\n", f"model_training:\n{backends}", 1))
    return load(config.path)
