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
from potato_ray.job.outcome import explain

TAIL_BYTES = 16_384
LONGEST_CHARS = 500
"""Of a message in one line."""


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


def end_in_words(held: HeldJob) -> str:
    """How a job ended, in one line: success, cancelled, or error with code and message. Never fails."""
    if held.failure is not None:
        return f"error {held.failure.code}: {held.failure.message}"
    try:
        said = _last_events(held.folder)
        end = explain(held.folder.read_exit(), said.get("result"), said.get("error"))
    except (OSError, ValueError, TypeError) as failure:
        return f"its folder cannot be read: {failure}"
    return f"{end.status} {end.error_code}: {end.message[:LONGEST_CHARS]}" if end.error_code else end.status


def _last_events(folder: JobFolder) -> dict[str, dict[str, Any]]:
    """The last event of each name. Raises OSError."""
    follower = Follower(folder)
    last: dict[str, dict[str, Any]] = {}
    while True:
        events = follower.poll()
        if not events:
            return last
        last.update({event["event"]: event for event in events})


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
