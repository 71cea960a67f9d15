"""Whole runs on a real embedded Ray: a copy of a project, a session that holds it, a reader."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from whole_runs import MakeProject, OpenSession, projects

from potato_ray.actors.embedded import EmbeddedRay
from potato_ray.actors.session import Session
from potato_ray.config import ProjectConfig
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
def make_project() -> Iterator[MakeProject]:
    """Copies a project to a short path and sets keys of its model_training."""
    with projects() as make:
        yield make


class SharedRay:
    """A session's Ray when many sessions share one: what ends with the session is its controller."""

    def __init__(self, cluster: EmbeddedRay) -> None:
        self.address = cluster.address

    def start(self, backends: Iterable[str]) -> None:
        return

    def stop(self) -> None:
        import ray

        from potato_ray.actors.controller import NAME

        with contextlib.suppress(ValueError):
            ray.kill(ray.get_actor(NAME))


@pytest.fixture(scope="module")
def shared_ray() -> Iterator[SharedRay]:
    """One embedded Ray for the tests of a module: its start and its end take longer than most runs."""
    folder = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
    cluster = EmbeddedRay(folder / "state", "tests")
    try:
        cluster.start(["local"])
        yield SharedRay(cluster)
    finally:
        cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def open_session(shared_ray: SharedRay) -> Iterator[OpenSession]:
    """Opens sessions on the Ray of the module, one after the other, and closes what is left open."""
    with contextlib.ExitStack() as left_open:
        yield _opener(left_open, shared_ray)


@pytest.fixture
def open_own_session() -> Iterator[OpenSession]:
    """The same with a Ray of their own, for tests of what a session's end or the environment does to it.

    A process holds one Ray at a time: a module uses this or `open_session`.
    """
    with contextlib.ExitStack() as left_open:
        yield _opener(left_open, None)


def _opener(left_open: contextlib.ExitStack, ray: SharedRay | None) -> OpenSession:
    def open_(config: ProjectConfig) -> Session:
        session = Session(config, purpose="a test")
        if ray is not None:
            session.cluster = ray  # type: ignore[assignment]
        session.open()
        left_open.callback(session.close)
        return session

    return open_
