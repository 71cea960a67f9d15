"""Runs of a project: their items, their start, the wait for them, and what is left of them."""

from __future__ import annotations

import contextlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import yaml

from potato_ray.actors.session import Session
from potato_ray.config import ProjectConfig, load
from potato_ray.job.folder import JobFolder
from potato_ray.registry.reading import RegistryReader
from potato_ray.registry.runs import Run
from potato_ray.starting import StartRequest

MakeProject = Callable[..., ProjectConfig]
OpenSession = Callable[[ProjectConfig], Session]
DEADLINE_S = 90.0
"""A library that was installed a moment ago takes its time at the first import, beside other tests too."""
PROJECTS = Path(__file__).parent.parent / "projects"


@contextlib.contextmanager
def projects() -> Iterator[MakeProject]:
    """Copies projects to short paths, sets keys of their model_training, and removes them in the end."""
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


def reader_of(config: ProjectConfig) -> RegistryReader:
    return RegistryReader(config.registry_path, project=config.annotation_task_name)


def start(session: Session, trainer: str = "rehearsal", schema: str = "sentiment", **params: Any) -> str:
    """Start a run; its id."""
    answer = session.call("start", StartRequest(trainer=trainer, schemas=(schema,), params=params))
    assert answer["started"], answer
    return str(answer["run_id"])


def wait_until(
    config: ProjectConfig, run_id: str, true_of: Callable[[Run], bool], within_s: float = DEADLINE_S
) -> Run:
    """Wait until something is true of a run; fails at the deadline, naming what the run was."""
    reader, deadline = reader_of(config), time.monotonic() + within_s
    while True:
        run = reader.run(run_id)
        if true_of(run):
            return run
        assert not run.ended, f"ended as {run.state}: {run.error_code} {run.error} {run.error_evidence}"
        assert time.monotonic() < deadline, f"still {run.status} ({run.step}) after {within_s} s"
        time.sleep(0.02)


def ended(config: ProjectConfig, run_id: str, within_s: float = DEADLINE_S) -> Run:
    return wait_until(config, run_id, lambda run: run.ended, within_s)


def in_step(step: str) -> Callable[[Run], bool]:
    return lambda run: run.step == step


def folder_of(config: ProjectConfig, run_id: str) -> JobFolder:
    return JobFolder(config.training_dir / "runs" / run_id)


def add_items(config: ProjectConfig, count: int) -> None:
    """More items, which nobody has labelled."""
    (path,) = config.data_paths
    items = json.loads(path.read_text("utf-8"))
    items += [{"id": f"more-{number}", "text": f"review number {number}"} for number in range(count)]
    path.write_text(json.dumps(items), "utf-8")
