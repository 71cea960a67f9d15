"""Making and following job folders in tests."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from potato_ray.job.folder import Exit, JobFolder, write_json
from potato_ray.job.follow import Follower
from potato_ray.job.processes import marked

PATIENCE_S = 30.0


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
