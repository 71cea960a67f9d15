"""The server of a project on this machine, what is public, and how progress is shown."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from answering import Replies
from client_time import client_of
from served_project import KEY, ServedProject
from training_libraries import NUMERICAL

import potato_ray.client
from potato_ray.client import AsyncClient, Client, Conflict, NotFound, RunRecord, failures, records
from potato_ray.client.progress import Bar, watching
from potato_ray.lock import SERVING, holding


def note(task_dir: Path, body: str) -> None:
    (task_dir / ".potato_ray").mkdir(exist_ok=True)
    (task_dir / ".potato_ray" / "server.json").write_text(body)


@contextmanager
def held(task_dir: Path, purpose: str = SERVING, **facts: str) -> Iterator[None]:
    """The project is held, with these facts in the holder's note."""
    with holding(task_dir / ".potato_ray", purpose) as lock:
        lock.describe(purpose=purpose, **facts)
        yield


@pytest.mark.parametrize("name", ["", "config.yaml"])
def test_the_server_of_a_project_is_found_by_its_note(project: ServedProject, name: str) -> None:
    (project.config.task_dir / "admin_api_key.txt").write_text(KEY + "\n")
    with (
        held(project.config.task_dir, url=project.url),
        Client.of_project(project.config.task_dir / name) as client,
    ):
        assert client.runs() == []


def test_a_note_that_outlived_its_server_gets_no_key(tmp_path: Path) -> None:
    with held(tmp_path, url="http://127.0.0.1:8000"):
        left = (tmp_path / ".potato_ray" / "server.json").read_text()
    note(tmp_path, left)
    with pytest.raises(NotFound) as missing:
        Client.of_project(tmp_path, "a key")
    assert missing.value.code == "no_server"


@pytest.mark.parametrize("of_project", [Client.of_project, AsyncClient.of_project])
def test_a_server_on_another_machine_that_shares_the_folder_gets_no_key(
    tmp_path: Path, of_project: Callable[..., object]
) -> None:
    with (
        held(tmp_path, url="http://127.0.0.1:8000", host="gpu-7"),
        pytest.raises(Conflict, match="another machine, gpu-7") as elsewhere,
    ):
        of_project(tmp_path, "a key")
    assert elsewhere.value.code == "project_in_use"


def test_a_server_on_another_machine_that_can_be_reached_is_found(tmp_path: Path) -> None:
    with (
        held(tmp_path, url="https://gpu-7.example.org", host="gpu-7"),
        Client.of_project(tmp_path, "a key") as client,
    ):
        assert client.url == "https://gpu-7.example.org"


def test_a_command_that_holds_the_project_is_no_server(tmp_path: Path) -> None:
    with held(tmp_path, "potato-ray training run", url="http://127.0.0.1:8000"), pytest.raises(NotFound):
        Client.of_project(tmp_path)


@pytest.mark.parametrize("body", ["", "[]", "{}", '{"url": 7}', '{"purpose": "potato-ray training run"}'])
def test_a_project_without_a_server_is_said(tmp_path: Path, body: str) -> None:
    note(tmp_path, body)
    with pytest.raises(NotFound) as missing:
        Client.of_project(tmp_path)
    assert missing.value.code == "no_server"
    assert "server.json" in missing.value.evidence


def test_everything_public_is_exported() -> None:
    exported = set(potato_ray.client.__all__)
    assert exported == {name for name in exported if hasattr(potato_ray.client, name)}
    for module in (failures, records):
        here = {
            name
            for name, each in vars(module).items()
            if isinstance(each, type) and each.__module__ == module.__name__
        }
        assert here - exported <= {"Record", "StartAnswer"}


def test_every_error_is_drawn_in_the_tree() -> None:
    tree = (failures.__doc__ or "").split()
    kinds = [each for each in vars(failures).values() if isinstance(each, type)]
    drawn = [each for each in kinds if issubclass(each, failures.ClientError)]
    assert len(drawn) > 10
    assert {each.__name__ for each in drawn} - set(tree) == set()


def test_the_client_loads_nothing_of_the_server() -> None:
    program = "import sys, potato_ray.client; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
    )
    loaded = set(done.stdout.split())
    ours = {name for name in loaded if name.startswith("potato_ray.") and ".client" not in name}
    assert ours == {"potato_ray.errors", "potato_ray.loopback"}
    assert (NUMERICAL | {"ray", "fastapi", "pydantic", "yaml"}) & loaded == set()


def test_without_a_terminal_there_is_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    with watching(True) as watch:
        watch(RunRecord("r", status="running"))
    with watching(False) as watch:
        watch(RunRecord("r", status="running"))
    assert capsys.readouterr().err == ""


def test_the_bar_takes_steps_with_and_without_a_total() -> None:
    with Bar() as bar:
        bar.show("running: [fitting]", 3, 10)
        (task,) = bar._progress.tasks
        assert (task.total, task.completed, task.description) == (10, 3, "running: [fitting]")
        bar.show("success", 0, 0)
        assert task.total is None


def test_a_run_and_a_client_show_what_they_are() -> None:
    with client_of(Replies()) as client:
        assert repr(client) == "<Client of http://127.0.0.1:8000>"
