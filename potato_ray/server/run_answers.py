"""A run as the API answers it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import Response

from potato_ray.errors import NotFound
from potato_ray.registry.runs import Run, to_json
from potato_ray.run_log import log_line
from potato_ray.server.context import ServerContext
from potato_ray.server.hiding import hide_paths

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,254}")
_ONLY_IN_FULL = frozenset({"scores", "result"})
_ERROR_FIELDS = ("error", "error_evidence", "error_next_step")
_TOLD_IN = ("message", "evidence", "next_step")


def json_answer(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """A JSON answer: without NaN, which other programs cannot read, and in ASCII."""
    return Response(to_json(body), status, dict(headers or {}), media_type="application/json")


def found_run(context: ServerContext, run_id: str) -> Run:
    """The run; raises NotFound, which says where the folder of a forgotten run is."""
    try:
        return context.reader.run(run_id)
    except NotFound as missing:
        folder = folder_of(context, run_id)
        if folder is None or not folder.is_dir():
            raise
        raise NotFound(
            missing.message,
            code=missing.code,
            evidence=f"Its record is gone (model_training.retain_runs), its folder is still there: "
            f"{_within(context, folder)}.",
            next_step="Look into that folder, or raise retain_runs to keep more records.",
        ) from None


def folder_of(context: ServerContext, run_id: str) -> Path | None:
    """The folder of a run, whether it is there or not; None for what can be no run's name."""
    if not _RUN_ID.fullmatch(run_id):
        return None
    return context.config.training_dir / "runs" / run_id


def _within(context: ServerContext, folder: Path) -> str:
    try:
        return str(folder.relative_to(context.config.task_dir))
    except ValueError:
        return folder.name


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
    return hide_paths(text, context.config.task_dir)


def _shown(context: ServerContext, run: Run) -> dict[str, Any]:
    body = run.as_json()
    body |= {name: hidden(context, body[name]) for name in _ERROR_FIELDS}
    body["warnings"] = [hidden(context, each) for each in body["warnings"]]
    return body
