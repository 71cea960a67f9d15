"""What a job's folder says of its end, as the server wants to hear it."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

from potato_ray.agent.held_job import HeldJob
from potato_ray.job.events import EXIT_FINISHED
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import Follower

TAIL_BYTES = 16_384


def result_of(held: HeldJob, host: str, n_events: int, agent_log: str) -> dict[str, Any]:
    """The body of a result request."""
    return {
        "exit": _exit(held.folder),
        "next_seq": n_events,
        "artifact_uri": _artifact_uri(held.folder, host),
        "stderr_tail": tail_of(held.folder.stderr),
        "agent_log": agent_log,
        "failure": asdict(held.failure) if held.failure is not None else None,
    }


def succeeded(held: HeldJob) -> bool:
    """Whether the worker came to a good end, and nothing of our own spoiled it."""
    end = _exit(held.folder)
    good = end is not None and end["code"] == EXIT_FINISHED and not end["reason"]
    return good and held.failure is None


def count_events(folder: JobFolder) -> int:
    """How many whole lines events.jsonl has. Raises OSError."""
    follower = Follower(folder)
    while follower.poll():
        pass
    return follower.next_seq


def tail_of(path: Path) -> str:
    """The last lines of a log; "" when there is none."""
    try:
        with path.open("rb") as handle:
            size = os.fstat(handle.fileno()).st_size
            handle.seek(max(0, size - TAIL_BYTES))
            text = handle.read(TAIL_BYTES).decode("utf-8", "replace")
    except OSError:
        return ""
    return text if size <= TAIL_BYTES else text.partition("\n")[2]


def _exit(folder: JobFolder) -> dict[str, Any] | None:
    try:
        end = folder.read_exit()
    except (OSError, ValueError, TypeError):
        return None
    return asdict(end) if end is not None else None


def _artifact_uri(folder: JobFolder, host: str) -> str:
    """Where the model files are, HOST:PATH; "" when there are none."""
    artifacts = folder.artifacts
    if not artifacts.is_dir() or not any(artifacts.iterdir()):
        return ""
    return f"{host}:{artifacts.resolve()}"
