"""A run as the API answers it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import Response

from potato_ray.errors import NotFound
from potato_ray.hiding import hide_paths_but_installs
from potato_ray.registry.runs import Run, to_json
from potato_ray.run_log import log_line
from potato_ray.run_lookup import find_run, run_folder
from potato_ray.server.context import ServerContext

_ONLY_IN_FULL = frozenset({"scores", "result"})
_ERROR_FIELDS = ("error", "error_evidence", "error_next_step")
_TOLD_IN = ("message", "evidence", "next_step")


def json_answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer: without NaN, which other programs cannot read, and in ASCII."""
    return Response(to_json(body), status, dict(headers or {}), media_type="application/json")


def found_run(context: ServerContext, run_id: str) -> Run:
    """The run; raises NotFound, which says where the folder of a forgotten run is."""
    try:
        return find_run(context.config, context.reader, run_id)
    except NotFound as missing:
        missing.evidence = hidden(context, missing.evidence)
        raise


def folder_of(context: ServerContext, run_id: str) -> Path | None:
    """The folder of a run, whether it is there or not; None for what can be no run's name."""
    return run_folder(context.config, run_id)


def summary(context: ServerContext, run: Run) -> dict[str, Any]:
    """A run in a list."""
    return {name: value for name, value in _shown(context, run).items() if name not in _ONLY_IN_FULL}


def in_full(context: ServerContext, run: Run) -> dict[str, Any]:
    """One run with everything."""
    before = context.reader.previous_success(run.run_id)
    previous = None if before is None else {"run_id": before[0], "metrics": before[1]}
    return {**_shown(context, run), "previous": previous, "review": None}


def shown_event(context: ServerContext, event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as people see it: errors and warnings name no path outside the project."""
    if event.get("event") != "error" and event.get("level") != "warning":
        return dict(event)
    return {
        name: hidden(context, value) if name in _TOLD_IN and isinstance(value, str) else value
        for name, value in event.items()
    }


def told_event(context: ServerContext, event: Mapping[str, Any]) -> dict[str, Any]:
    """An event as people see it, with its `line` of the log: "" for one that the log leaves out."""
    shown = shown_event(context, event)
    return {**shown, "line": log_line(shown)}


def hidden(context: ServerContext, text: str) -> str:
    """The text without paths outside the project."""
    # Most texts hold none, and where the project lies is looked up on the disk.
    return hide_paths_but_installs(text, context.config.task_dir) if "/" in text else text


def _shown(context: ServerContext, run: Run) -> dict[str, Any]:
    body = run.as_json()
    body |= {name: hidden(context, body[name]) for name in _ERROR_FIELDS}
    body["warnings"] = [hidden(context, each) for each in body["warnings"]]
    return body
