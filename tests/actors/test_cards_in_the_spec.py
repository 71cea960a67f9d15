"""Which cards a run's spec names: those that the server has chosen, or none where somebody else chooses."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import yaml

from potato_ray.actors.building import Building
from potato_ray.backends.base import Placement
from potato_ray.bundle.report import BuildReport
from potato_ray.config import ProjectConfig, load
from potato_ray.job.folder import read_json
from potato_ray.registry.runs import Run
from potato_ray.registry.states import State

PROJECT = Path(__file__).parent.parent / "projects" / "review-sentiment"
BACKENDS = {
    "cluster": {"type": "slurm", "host": "login1", "remote_dir": "/shared", "job_python": "python3"},
    "gpu": {"type": "ssh", "host": "gpu1"},
    "workstation": {"type": "agent"},
}
REPORT = cast(BuildReport, SimpleNamespace(manifest={"labels": {}}))


@pytest.fixture
def config(tmp_path: Path) -> ProjectConfig:
    shutil.copytree(PROJECT, tmp_path / "p")
    path = tmp_path / "p" / "config.yaml"
    body = yaml.safe_load(path.read_text("utf-8"))
    body["model_training"].update(backends=BACKENDS)
    path.write_text(yaml.safe_dump(body, allow_unicode=True), "utf-8")
    return load(path)


@pytest.mark.parametrize(
    ("backend", "device", "chosen", "named"),
    [
        ("cluster", "cuda", (), None),  # CUDA_VISIBLE_DEVICES stays as SLURM sets it
        ("cluster", "cpu", (), []),  # no card is seen, whatever the node has
        ("workstation", "auto", (), None),
        ("workstation", "cpu", (), []),
        ("gpu", "cuda", ("GPU-1",), ["GPU-1"]),
        ("gpu", "cpu", (), []),
        ("local", "cuda", ("GPU-1",), ["GPU-1"]),
    ],
)
def test_a_spec_names_the_cards_that_the_server_has_chosen(
    config: ProjectConfig,
    tmp_path: Path,
    backend: str,
    device: str,
    chosen: tuple[str, ...],
    named: list[str] | None,
) -> None:
    (tmp_path / "r").mkdir()
    controller: Any = SimpleNamespace(config=config, run_folder=lambda run_id: tmp_path / run_id)
    run = Run(
        "r", "p", "sklearn-text", ("sentiment",), ("nominal",), {}, backend, State.BUILDING, 1, "page", 0.0
    )
    building = Building(controller, run, Placement(backend, device, chosen))
    building._write_spec(REPORT)
    limits = (read_json(building.job.spec) or {})["limits"]
    assert (limits["device"], limits["gpu_uuids"]) == (device, named)
