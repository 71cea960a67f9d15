"""The server of a project on this machine, what is public, and how progress is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from answering import Replies
from client_time import client_of
from served_project import KEY, ServedProject

import potato_ray.client
from potato_ray.client import Client, NotFound, RunRecord, failures, records
from potato_ray.client.progress import Bar, watching


def note(task_dir: Path, body: str) -> None:
    (task_dir / ".potato_ray").mkdir(exist_ok=True)
    (task_dir / ".potato_ray" / "server.json").write_text(body)


@pytest.mark.parametrize("name", ["", "config.yaml"])
def test_the_server_of_a_project_is_found_by_its_note(project: ServedProject, name: str) -> None:
    note(project.config.task_dir, json.dumps({"url": project.url}))
    (project.config.task_dir / "admin_api_key.txt").write_text(KEY + "\n")
    with Client.of_project(project.config.task_dir / name) as client:
        assert client.runs() == []


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
    assert ours == {"potato_ray.errors"}
    assert {"ray", "fastapi", "pydantic", "yaml", "pandas"} & loaded == set()


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
