from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from job_folders import ORDINARY, write_bundle

from potato_ray.job.folder import JobFolder, write_json
from potato_ray.job.follow import Follower
from potato_ray.job.processes import is_alive
from potato_ray.job.spec import JobSpec, Limits
from potato_ray.trainers.base import SchemeSpec

HERE = Path(__file__).parent


@pytest.fixture(scope="session", autouse=True)
def stub_trainers_are_importable() -> None:
    if str(HERE) not in sys.path:
        sys.path.append(str(HERE))


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[Callable[..., JobFolder]]:
    """Makes job folders for stub trainers, and for ours by name.

    What they leave behind is killed, so that no test hurts the next.
    """
    folders: list[JobFolder] = []

    def make(
        trainer: str = "Majority",
        splits: dict[str, list[str | None]] | None = None,
        env: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
        seed: int = 0,
        **limits: Any,
    ) -> JobFolder:
        folder = JobFolder(tmp_path / f"job-{len(folders)}")
        write_bundle(folder.bundle, ORDINARY if splits is None else splits)
        spec = JobSpec(
            run_id=f"{tmp_path.name}-{os.getpid()}-{len(folders)}",
            attempt=1,
            trainer=trainer if "-" in trainer else f"stub_trainers:{trainer}",
            schemes=(SchemeSpec("topic", "radio", "nominal", ("a", "b")),),
            params={"min_instances": 10, **(params or {})},
            seed=seed,
            limits=Limits(**limits),
            env={"PYTHONPATH": str(HERE), **(env or {})},
        )
        write_json(folder.spec, spec.as_json())
        folders.append(folder)
        return folder

    yield make
    for folder in folders:
        _end(folder)


def _end(folder: JobFolder) -> None:
    processes = folder.read_processes() if folder.path.exists() else None
    if processes is not None:
        for process in (processes.launcher, processes.worker):
            if is_alive(process):
                os.kill(process.pid, signal.SIGKILL)
        Follower(folder).end_remains()
