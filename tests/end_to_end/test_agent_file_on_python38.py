"""agent.pyz as a server gives it out, under a Python 3.8 with what two trainers need, and nothing of ours."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from agent_process import AgentProcess
from agent_study import Study
from kept_folder import kept_folder, pip_install, run_or_miss
from molecule_items import give_molecules
from parts import need_python38
from server_process import API
from test_agent_runs import BACKENDS, succeeded
from whole_runs import projects

from potato_ray.agent.loop import WAITING

pytestmark = [pytest.mark.ray, pytest.mark.timeout(600)]

PACKAGES = ("scikit-learn==1.3.2", "skops==0.9.0", "rdkit==2024.3.5")
MOST_START_S = 0.3
MOST_IDLE_MIB = 30.0
LEAST_STARTS = 3
MOST_STARTS = 10
NOTHING_OF_OURS = """
import pkgutil, sys
ours = [module.name for module in pkgutil.iter_modules() if "potato" in module.name]
sys.exit(f"{ours} can be imported" if ours else 0)
"""


@pytest.fixture(scope="module", autouse=True)
def rehearsal_trainers() -> None:
    """In place of those of the other tests: nothing is put on the path of what is started from here."""


@pytest.fixture(scope="module")
def python38() -> Path:
    """The interpreter of an environment that is made once and kept between the runs of the tests."""
    base = need_python38()
    version = subprocess.run([base, "--version"], capture_output=True, text=True, timeout=20, check=True)

    def fill(folder: Path) -> None:
        run_or_miss([base, "-m", "venv", str(folder)], "an environment of Python 3.8")
        pip_install(str(folder / "bin" / "python"), *PACKAGES)

    return kept_folder(" ".join([version.stdout.strip(), *PACKAGES]), fill) / "bin" / "python"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    with projects() as make_project:
        config = make_project(backends=BACKENDS)
        give_molecules(config)
        study = Study(config, tmp_path_factory.mktemp("agent") / "work", BACKENDS)
        yield study
        study.close()


@pytest.fixture(scope="module")
def agent_file(study: Study, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """agent.pyz, fetched as docs/agents.md says."""
    headers = {"Authorization": f"Bearer {study.tokens['ws']}"}
    answer = httpx.get(f"{study.server.url}/api/training/agent.pyz", headers=headers, timeout=20.0)
    assert answer.status_code == 200, answer.text
    path = tmp_path_factory.mktemp("fetched") / "agent.pyz"
    path.write_bytes(answer.content)
    return path


def start(url: str, token: str, workdir: Path, python: Path, agent_file: Path) -> AgentProcess:
    program = (str(python), str(agent_file))
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("PYTHONPATH", raising=False)
        return AgentProcess(url, token, workdir, "--python", str(python), program=program)


def test_a_run_is_trained_under_python_3_8_and_scored(study: Study, python38: Path, agent_file: Path) -> None:
    subprocess.run([str(python38), "-I", "-c", NOTHING_OF_OURS], check=True, timeout=20)
    agent = start(study.server.url, study.tokens["ws"], study.workdir, python38, agent_file)
    study.agents.append(agent)
    run = succeeded(study, study.start())
    assert study.reader.agents("ws")[0].python.startswith("3.8.")
    assert run.headline is not None
    assert run.headline["n_items"] > 0
    assert run.headline["value"] > 0.5, run.headline
    assert len(list(study.reader.predictions(run.run_id))) > 0
    assert (Path(run.artifact_uri.partition(":")[2]) / "model.skops").is_file(), run.artifact_uri
    agent.wait_until(lambda: agent.said.rstrip().endswith(WAITING))  # again, behind the job
    assert study.comes_to_rest()
    [job] = (study.workdir / "jobs").glob(f"{run.run_id}.*")
    assert sorted(path.name for path in job.iterdir()) == ["artifacts", "done.json"]
    assert resident_mib(agent.process.pid) < MOST_IDLE_MIB
    assert agent.end(signal.SIGTERM) == 0, agent.said
    assert agent.left() == []


def test_boosting_is_fitted_to_molecules_there_and_its_model_can_be_loaded(
    study: Study, python38: Path, agent_file: Path
) -> None:
    agent = start(study.server.url, study.tokens["ws"], study.workdir, python38, agent_file)
    study.agents.append(agent)
    body = {"trainer": "rdkit-property", "schemas": ["sentiment"], "backend": "ws"}
    run = succeeded(
        study, str(study.post(f"{API}/runs", {**body, "params": {"smiles_field": "smiles"}})["run_id"])
    )
    assert run.headline is not None
    assert run.headline["value"] > run.headline["baseline"], run.headline
    assert (Path(run.artifact_uri.partition(":")[2]) / "model.skops").is_file(), run.artifact_uri
    assert agent.end(signal.SIGTERM) == 0, agent.said


def first_claim(python: Path, agent_file: Path, workdir: Path) -> tuple[float, float]:
    """Start an agent against a server that never answers: s to its first claim, MiB while it waits."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(20.0)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        began = time.monotonic()
        agent = start(url, "prt_" + "a" * 43, workdir, python, agent_file)
        try:
            line, _ = server.accept()
            with line:
                assert line.recv(4096).startswith(b"POST /api/training/jobs/claim ")
                took_s = time.monotonic() - began
                time.sleep(1.0)  # whatever it still does by itself then is part of what it costs idle
                return took_s, resident_mib(agent.process.pid)
        finally:
            agent.close()


def resident_mib(pid: int) -> float:
    found = re.search(r"^VmRSS:\s+(\d+) kB$", Path(f"/proc/{pid}/status").read_text(), re.MULTILINE)
    assert found is not None
    return int(found[1]) / 1024


def test_an_agent_starts_at_once_and_is_small(python38: Path, agent_file: Path, tmp_path: Path) -> None:
    starts: list[tuple[float, float]] = []
    # The best is what a start takes; the others tell of the machine's other work.
    while len(starts) < LEAST_STARTS or (min(starts)[0] >= MOST_START_S and len(starts) < MOST_STARTS):
        starts.append(first_claim(python38, agent_file, tmp_path / str(len(starts))))
    assert min(starts)[0] < MOST_START_S, starts
    assert max(mib for _, mib in starts) < MOST_IDLE_MIB, starts
