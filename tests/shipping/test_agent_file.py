"""agent.pyz: the agent as one file."""

from __future__ import annotations

import ast
import hashlib
import io
import subprocess
import sys
import zipfile
from pathlib import Path

from potato_ray.shipping.agent_file import agent_file
from potato_ray.shipping.sources import agent_sources, host_sources, worker_sources


def test_the_agent_file_is_the_same_each_time_it_is_made() -> None:
    first = agent_file()
    agent_file.cache_clear()
    assert agent_file().data == first.data
    assert hashlib.sha256(first.data).hexdigest() == first.sha256


def test_it_is_a_program_and_a_sound_zip() -> None:
    data = agent_file().data
    assert data.startswith(b"#!/usr/bin/env python3\n")
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None
        assert {entry.date_time for entry in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert "__main__.py" in archive.namelist()


def test_it_holds_the_agent_and_whatever_that_imports_of_ours() -> None:
    names = {name for name, _ in agent_sources()}
    assert {"potato_ray/__init__.py", "potato_ray/agent/protocol.py", "potato_ray/job/folder.py"} <= names
    for name, path in agent_sources():
        if name.startswith("potato_ray/agent/"):
            assert imported(path.read_text("utf-8")) - names == set(), name


def imported(source: str) -> set[str]:
    """The files of the modules of ours that a source imports from."""
    found = {node.module for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)}
    ours = {module for module in found if module and module.startswith("potato_ray.")}
    return {f"{module.replace('.', '/')}.py" for module in ours if module.count(".") > 1}


def test_no_trainer_is_in_it_and_all_are_in_the_code_of_a_worker() -> None:
    assert "potato_ray/trainers/sklearn_text.py" not in {name for name, _ in agent_sources()}
    assert "potato_ray/trainers/sklearn_text.py" in {name for name, _ in worker_sources()}


def test_nothing_but_what_runs_elsewhere_is_in_it() -> None:
    folders = {name.rsplit("/", 1)[0] for name, _ in agent_sources()}
    packages = {"agent", "agent/slurm", "job", "trainers"}
    assert folders <= {"potato_ray", *(f"potato_ray/{package}" for package in packages)}


def test_the_packages_within_the_agent_go_with_it_to_every_machine() -> None:
    keys = "potato_ray/agent/slurm/keys.py"
    assert {keys, "potato_ray/agent/slurm/__init__.py"} <= {name for name, _ in agent_sources()}
    assert keys in {name for name, _ in host_sources()}
    assert keys not in {name for name, _ in worker_sources()}


def test_a_package_within_the_agent_is_imported_from_the_one_file(tmp_path: Path) -> None:
    (tmp_path / "agent.pyz").write_bytes(agent_file().data)
    lines = "import sys; sys.path.insert(0, 'agent.pyz'); import potato_ray.agent.slurm.keys as keys"
    command = [sys.executable, "-I", "-S", "-c", f"{lines}; print(keys.__file__)"]
    said = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True, cwd=tmp_path)
    assert "agent.pyz/potato_ray/agent/slurm/keys.py" in said.stdout
