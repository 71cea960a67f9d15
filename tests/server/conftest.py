"""The application on a copy of a project, with a controller that trains nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from fastapi.testclient import TestClient
from feed_clients import Project
from registry_link import RegistryLink
from sse_starlette.sse import AppStatus

from potato_ray.config import ProjectConfig, load
from potato_ray.registry.reading import RegistryReader
from potato_ray.server.app import create_app
from potato_ray.server.context import ServerContext

PROJECTS = Path(__file__).parent.parent / "projects"
KEY = "the-admin-key-of-the-tests"


@pytest.fixture
def make_config(tmp_path: Path) -> Callable[..., ProjectConfig]:
    """Copies a project and sets keys of its model_training; `top` sets keys of the file itself."""

    def make(
        name: str = "review-sentiment", top: dict[str, Any] | None = None, **training: Any
    ) -> ProjectConfig:
        folder = tmp_path / name
        shutil.copytree(PROJECTS / name, folder)
        path = folder / "config.yaml"
        body = yaml.safe_load(path.read_text("utf-8"))
        body.update({"admin_api_key": KEY, **(top or {})})
        body["model_training"].update(training)
        path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
        return load(path)

    return make


@pytest.fixture(autouse=True)
def no_server_is_stopping(monkeypatch: pytest.MonkeyPatch) -> None:
    """sse-starlette remembers for the life of a process that a server in it was told to stop."""
    monkeypatch.setattr(AppStatus, "should_exit", False)


class Served:
    """An application, its controller, and a client that sends the admin key."""

    def __init__(self, config: ProjectConfig) -> None:
        self.config = config
        self.controller = RegistryLink(config)
        self.reader = RegistryReader(config.registry_path, project=config.annotation_task_name)
        self.context = ServerContext(config, self.reader, self.controller, admin_key=KEY)
        self.app = create_app(self.context)
        self.anonymous = TestClient(self.app, raise_server_exceptions=False)
        self.client = TestClient(self.app, headers={"X-API-Key": KEY}, raise_server_exceptions=False)


@pytest.fixture
def serve(make_config: Callable[..., ProjectConfig]) -> Iterator[Callable[..., Served]]:
    """Makes applications: `serve()` or `serve("shapes", queue_max=2)`."""
    served: list[Served] = []

    def make(name: str = "review-sentiment", **training: Any) -> Served:
        served.append(Served(make_config(name, **training)))
        return served[-1]

    yield make
    for each in served:
        each.controller.close()


@pytest.fixture
def project(serve: Callable[..., Served]) -> Iterator[Project]:
    """A project with a feed, for nine runs at a time."""
    made = Project(serve(max_concurrent_runs=9))
    yield made
    made.feed.close()
