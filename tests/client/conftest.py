"""The client against the real application on a port."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from served_project import KEY, ServedProject
from serving import serving

from potato_ray.client import Client

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"


@pytest.fixture(autouse=True)
def no_key_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("POTATO_ADMIN_API_KEY", raising=False)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[ServedProject]:
    folder = tmp_path / "review-sentiment"
    shutil.copytree(PROJECT, folder)
    served = ServedProject(folder)
    with serving(served.app) as served.url:
        yield served
    served.controller.close()


@pytest.fixture
def client(project: ServedProject) -> Iterator[Client]:
    with Client(project.url, KEY) as client:
        yield client
