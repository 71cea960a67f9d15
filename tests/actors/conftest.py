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
