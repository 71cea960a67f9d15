"""A run's log for people: one line an event, drawn from the registry's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from potato_ray.registry.events import BACK
from potato_ray.registry.reading import RegistryReader

PAGE = 1000
SPOKEN = ("status", "log", "metric", "artifact", "result", "error")
"""The events that say something to a person."""


def log_lines(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each event that says something to a person; times are UTC.

    `events` are dicts with at least `event` and `t` (epoch seconds UTC), as in events.jsonl.
    """
    return (line for line in map(log_line, events) if line)


def log_line(event: Mapping[str, Any]) -> str:
    """The line of one event, without its end; "" for one that says nothing to a person."""
    text = _text(event)
    return f"{_clock(event.get('t'))} {text}" if text else ""


def write_log(reader: RegistryReader, run_id: str, path: Path) -> None:
    """Write a run's whole log to `path`, atomically."""
    part = path.with_name(path.name + ".part")
    with part.open("w", encoding="utf-8", errors="backslashreplace") as handle:
        for line in log_lines(all_events(reader, run_id)):
            handle.write(line + "\n")
    part.replace(path)


def all_events(reader: RegistryReader, run_id: str) -> Iterator[dict[str, Any]]:
    """Every event of a run, page by page."""
    after = 0
    while page := reader.events(run_id, after=after, limit=PAGE):
        yield from page
        after = int(page[-1]["id"])


def _clock(epoch_s: Any) -> str:
    if not isinstance(epoch_s, int | float):
        return "-" * 20
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(event: Mapping[str, Any]) -> str:
    name = event.get("event")
    if name == "status":
        return "" if event.get(BACK) else str(event.get("step") or event.get("phase") or "")
    if name == "log":
        level = event.get("level", "info")
        return f"{'WARNING: ' if level == 'warning' else ''}{event.get('message', '')}"
    if name == "metric":
        step = event.get("step")
        return f"{event.get('name')} = {event.get('value')}" + (f" (step {step})" if step is not None else "")
    if name == "artifact":
        return f"wrote {event.get('path')} ({event.get('bytes')} bytes)"
    if name == "result":
        return f"the worker finished with {event.get('n_predictions', 0)} predictions"
    if name == "error":
        return f"ERROR ({event.get('code')}): {event.get('message')} {event.get('next_step') or ''}".rstrip()
    return ""
