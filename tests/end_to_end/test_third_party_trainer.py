"""The package in CONTRIBUTING.md, as it stands there: where pip has installed it, its trainer runs."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from agent_study import Study
from server_process import API
from whole_runs import ended, folder_of, projects

from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

pytestmark = pytest.mark.ray

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"
BACKENDS = {"ws": {"type": "agent"}}
READ_AGAIN = """
import sys
from pathlib import Path
from potato_ray.trainers.registry import load_trainer
[found] = load_trainer(Path(sys.argv[1])).predict([{"instance_id": "a", "text": "excellent"}])
print(found.payload["label"])
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that pip has installed the package to."""
    source, target = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("installed")
    section = CONTRIBUTING.read_text("utf-8").partition("### A trainer in a package of your own")[2]
    project, module = re.findall(r"```(?:toml|python)\n(.*?)```", section, re.S)[:2]
    (source / "pyproject.toml").write_text(project, "utf-8")
    (source / "word_votes.py").write_text(module, "utf-8")
    pip = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index"]
    command = [*pip, "--disable-pip-version-check", "--target", str(target), str(source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return target


@pytest.fixture(scope="module")
def study(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """A server that has the package; its agents have it where PYTHONPATH says so."""
    with projects() as make_project, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", found_too(installed))
        study = Study(make_project(backends=BACKENDS), tmp_path_factory.mktemp("agent"), BACKENDS)
        patch.undo()
        yield study
        study.close()


def found_too(folder: Path) -> str:
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))


def run(study: Study, backend: str) -> Run:
    body = {"trainer": "word-votes", "schemas": ["sentiment"], "params": {"doubt": 0.5}, "backend": backend}
    return ended(study.config, str(study.post(f"{API}/runs", body)["run_id"]))


def test_it_trains_and_its_model_can_be_read_again(study: Study, installed: Path) -> None:
    done = run(study, "local")
    assert done.state == State.SUCCESS, (done.error, done.error_evidence)
    assert done.headline is not None
    assert done.headline["value"] > 0.6
    artifacts = folder_of(study.config, done.run_id).artifacts
    again = subprocess.run(
        [sys.executable, "-c", READ_AGAIN, str(artifacts)],
        env={**os.environ, "PYTHONPATH": found_too(installed)},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert again.stdout.strip() == "positive"


def test_it_is_listed_with_its_parameters(study: Study) -> None:
    url, headers = study.server.url + f"{API}/trainers", study.server.headers()
    told = httpx.get(url, headers=headers, timeout=20.0).json()["trainers"]
    [mine] = [each for each in told if each["name"] == "word-votes"]
    assert (mine["available"], [each["name"] for each in mine["params"]]) == (
        True,
        ["doubt", "min_instances"],
    )


def test_an_agent_without_it_says_what_to_install_where(study: Study) -> None:
    study.agent("--once")
    failed = run(study, "ws")
    study.dismiss()
    assert (failed.state, failed.error_code) == (State.ERROR, "missing_dependency")
    assert failed.error == (
        f"Trainer 'word-votes' could not be imported: {sys.executable} on {failed.host} lacks "
        "potato-word-votes==1.0."
    )
    line = f"{sys.executable} -m pip install potato-word-votes==1.0"
    assert failed.error_next_step == f"{line}, or the same with the package's folder or wheel."


def test_an_agent_with_it_trains(study: Study, installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", found_too(installed))
    study.agent("--once")
    done = run(study, "ws")
    study.dismiss()
    assert done.state == State.SUCCESS, (done.error, done.error_evidence)
