"""Whole runs on a real embedded Ray: a copy of a project, a session that holds it, a reader."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from potato_ray.actors.session import Session
from potato_ray.config import ProjectConfig, load
from potato_ray.trainers import registry

PROJECTS = Path(__file__).parent.parent / "projects"
PLUGIN = Path(__file__).parent.parent / "testbeds" / "plugin"


@pytest.fixture(scope="module", autouse=True)
def rehearsal_trainers() -> Iterator[None]:
    """The trainers of tests/testbeds/plugin, here and in every process that is started from here."""
    before = os.environ.get("PYTHONPATH")
    sys.path.insert(0, str(PLUGIN))
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(PLUGIN), before]))
    registry._announced.cache_clear()
    yield
    sys.path.remove(str(PLUGIN))
    registry._announced.cache_clear()
    os.environ.pop("PYTHONPATH")
    if before is not None:
        os.environ["PYTHONPATH"] = before


@pytest.fixture
def make_project() -> Iterator[Callable[..., ProjectConfig]]:
    """Copies a project to a short path and sets keys of its model_training."""
    folders: list[Path] = []

    def make(name: str = "review-sentiment", **training: Any) -> ProjectConfig:
        folder = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
        folders.append(folder)
        shutil.copytree(PROJECTS / name, folder / "p")
        path = folder / "p" / "config.yaml"
        body = yaml.safe_load(path.read_text("utf-8"))
        body["model_training"].update(training)
        path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
        return load(path)

    yield make
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def open_session() -> Iterator[Callable[[ProjectConfig], Session]]:
    """Opens sessions, and closes what the test has left open."""
    sessions: list[Session] = []

    def open_(config: ProjectConfig) -> Session:
        session = Session(config, purpose="a test")
        session.open()
        sessions.append(session)
        return session

    yield open_
    for session in sessions:
        session.close()
