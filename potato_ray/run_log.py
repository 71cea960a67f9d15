"""A run's log for people: one line an event, drawn from the registry's events."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import Any


def log_lines(events: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """One line for each event that says something to a person; times are UTC.

    `events` are dicts with at least `event` and `t` (epoch seconds UTC), as in events.jsonl.
    """
    for event in events:
        text = _text(event)
        if text:
            yield f"{_clock(event.get('t'))} {text}"


def _clock(epoch_s: Any) -> str:
    if not isinstance(epoch_s, int | float):
        return "-" * 20
    return datetime.fromtimestamp(epoch_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _text(event: Mapping[str, Any]) -> str:
    name = event.get("event")
    if name == "status":
        return str(event.get("step") or event.get("phase") or "")
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
