from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from potato_ray.job.folder import Exit, JobFolder, write_json
from potato_ray.job.follow import Follower
from potato_ray.job.processes import is_alive, marked
from potato_ray.job.spec import JobSpec, Limits
from potato_ray.trainers.base import SchemeSpec

HERE = Path(__file__).parent
PATIENCE_S = 30.0


@pytest.fixture(scope="session", autouse=True)
def stub_trainers_are_importable() -> None:
    if str(HERE) not in sys.path:
        sys.path.append(str(HERE))


def wait_for(condition: Callable[[], Any], what: str, timeout_s: float = PATIENCE_S) -> Any:
    """Poll until `condition` holds and return its value; fail after the timeout."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(0.01)
    raise AssertionError(f"{what} did not happen within {timeout_s} s")


def write_bundle(folder: Path, splits: dict[str, list[str | None]], scheme: str = "topic") -> None:
    """A bundle whose splits hold one item for each label given; None is an unlabelled item."""
    folder.mkdir(parents=True)
    entries = {}
    for split, labels in splits.items():
        rows = []
        for number, label in enumerate(labels):
            row: dict[str, Any] = {"instance_id": f"{split}-{number}", "text": f"text {number}"}
            if label is not None:
                row["targets"] = {scheme: label}
            rows.append(json.dumps(row))
        (folder / f"{split}.jsonl").write_text("".join(row + "\n" for row in rows), "utf-8")
        entries[split] = {"path": f"{split}.jsonl", "format": "jsonl", "n": len(rows), "n_items": len(rows)}
    write_json(folder / "manifest.json", {"v": 1, "splits": entries, "media_dir": "media", "digest": "d"})


ORDINARY: dict[str, list[str | None]] = {
    "train": ["a"] * 8 + ["b"] * 4,
    "val": ["a", "b"],
    "test": ["a"],
    "unlabeled": [None, None],
}


@pytest.fixture
def make_job(tmp_path: Path) -> Iterator[Callable[..., JobFolder]]:
    """Makes job folders for stub trainers; kills what they leave behind, so that no test hurts the next."""
    folders: list[JobFolder] = []

    def make(
        trainer: str = "Majority",
        splits: dict[str, list[str | None]] | None = None,
        env: dict[str, str] | None = None,
        params: dict[str, Any] | None = None,
        **limits: Any,
    ) -> JobFolder:
        folder = JobFolder(tmp_path / f"job-{len(folders)}")
        write_bundle(folder.bundle, ORDINARY if splits is None else splits)
        spec = JobSpec(
            run_id=f"{tmp_path.name}-{os.getpid()}-{len(folders)}",
            attempt=1,
            trainer=f"stub_trainers:{trainer}",
            schemes=(SchemeSpec("topic", "radio", "nominal", ("a", "b")),),
            params={"min_instances": 10, **(params or {})},
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


def end_of(folder: JobFolder, timeout_s: float = PATIENCE_S) -> Exit:
    """Follow a launched job to its exit.json."""
    return wait_for(folder.read_exit, "the end of the job", timeout_s)


def events_of(folder: JobFolder, name: str | None = None) -> list[dict[str, Any]]:
    return [event for event in Follower(folder).poll(10_000) if name in (None, event["event"])]


def logged(folder: JobFolder) -> list[str]:
    return [event["message"] for event in events_of(folder, "log")]


def last(folder: JobFolder, name: str) -> dict[str, Any] | None:
    found = events_of(folder, name)
    return found[-1] if found else None


def said(folder: JobFolder, step: str) -> None:
    """Wait until the worker has named this step."""
    wait_for(
        lambda: any(event.get("step") == step for event in events_of(folder, "status")), f"the step {step}"
    )


def left_of(folder: JobFolder) -> list[int]:
    """Processes of the job that still live."""
    processes = folder.read_processes()
    return marked(processes.markers) if processes is not None else []
