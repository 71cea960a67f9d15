"""Fixtures of the commands' tests: a copy of a project, and the job folders of the testbeds."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from potato_ray.config import ProjectConfig, load

TESTS = Path(__file__).parent.parent
sys.path.insert(0, str(TESTS / "testbeds"))


@pytest.fixture
def project(tmp_path: Path) -> ProjectConfig:
    """A copy of the example project."""
    folder = tmp_path / "project"
    shutil.copytree(TESTS / "projects" / "review-sentiment", folder)
    return load(folder / "config.yaml")
