"""What is left of a job at its end, and what that says: shared by all who follow a job folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from potato_ray.backends.base import Outcome
from potato_ray.job.folder import Exit, JobFolder, read_json
from potato_ray.job.follow import Follower
from potato_ray.job.outcome import explain
from potato_ray.job.spec import JobSpec, Limits

Event = Mapping[str, Any]

STDERR_LINES: Final = 20
_STDERR_BYTES: Final = 16_384


class Ending:
    """The last result and the last error among a run's events."""

    def __init__(self) -> None:
        self.result: Event | None = None
        self.error: Event | None = None

    @property
    def is_silent(self) -> bool:
        return self.result is None and self.error is None

    def hear(self, events: list[dict[str, Any]]) -> None:
        for event in events:
            if event.get("event") == "result":
                self.result = event
            elif event.get("event") == "error":
                self.error = event

    def hear_all(self, follower: Follower) -> None:
        for events in _batches(follower):
            self.hear(events)


def _batches(follower: Follower) -> Iterator[list[dict[str, Any]]]:
    while events := follower.poll():
        yield events


def limits_of(folder: JobFolder) -> Limits:
    """The limits of the job's spec; those of a new one when it cannot be read, which its worker reports."""
    try:
        return JobSpec.from_json(read_if_whole(folder.spec) or {}).limits
    except (ValueError, KeyError, TypeError):
        return Limits()


def read_if_whole(path: Path) -> dict[str, Any] | None:
    """The object in a small JSON file; None when it is missing or unreadable."""
    try:
        return read_json(path)
    except (OSError, ValueError):
        return None


def outcome_of(end: Exit | None, ending: Ending, stderr_tail: str, limits: Limits) -> Outcome:
    """How the execution ended, from the worker's end and its last words."""
    told = explain(end, ending.result, ending.error, stderr_tail, limits)
    return Outcome(
        status=told.status,
        error_code=told.error_code,
        message=told.message,
        evidence=told.evidence,
        next_step=told.next_step,
        result=ending.result or {},
        peak_rss_mb=end.peak_rss_mb if end else 0.0,
    )


def tail_of(path: Path) -> str:
    """The last lines of a log; "" when there is none."""
    try:
        with path.open("rb") as handle:
            handle.seek(max(0, path.stat().st_size - _STDERR_BYTES))
            lines = handle.read().decode("utf-8", "replace").splitlines()
    except OSError:
        return ""
    return "\n".join(lines[-STDERR_LINES:])
