"""The body of a start: read as JSON, and refused with what to write instead."""

from __future__ import annotations

import json
from typing import Any

from fastapi import Request
from pydantic import ValidationError

from potato_ray.config.spelling import closest, listed, shown
from potato_ray.errors import StartRefused
from potato_ray.server.answers import StartBody

KNOWN = tuple(StartBody.model_fields)
TOLD = 10
"""The most faults of one body that its answer names."""
NAME_TOLD = 60
"""Characters of a name that are told."""
REQUEST_BODY: dict[str, Any] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": {"$ref": "#/components/schemas/StartBody"}}},
    }
}

_NEEDED = {
    "trainer": ("unknown_trainer", "No trainer was named.", "GET /admin/training/api/trainers lists them."),
    "schemas": (
        "unknown_schema",
        "No annotation scheme was named.",
        "GET /admin/training/api/schemas lists them.",
    ),
}


async def start_body(request: Request) -> StartBody:
    """The body of a request, of whose form bodies.py has seen to. Raises StartRefused."""
    try:
        body = json.loads(await request.body())
    except ValueError as error:
        raise _malformed("The body is no JSON.", f"{error}.") from None
    if not isinstance(body, dict):
        raise _malformed("The body must be a JSON object.", f"It is {shown(body)}.")
    return checked(body)


def checked(body: dict[str, Any]) -> StartBody:
    """The start in a JSON object. Raises StartRefused."""
    unknown = [name for name in body if name not in KNOWN]
    if unknown:
        raise _malformed(
            f"A start does not take {_told(unknown)}.",
            f"It takes {listed(KNOWN, 'and')}.",
            " ".join(filter(None, map(_suggestion, unknown[:TOLD]))),
        )
    for name, (code, message, next_step) in _NEEDED.items():
        if body.get(name) in (None, "", []):
            raise StartRefused(message, code=code, next_step=next_step)
    try:
        return StartBody.model_validate(body)
    except ValidationError as error:
        raise _malformed("The body is not of the form of a start.", _found(error)) from None


def _found(error: ValidationError) -> str:
    found = error.errors()
    told = [f"{'.'.join(_short(str(at)) for at in each['loc'])}: {each['msg']}." for each in found[:TOLD]]
    return " ".join([*told, f"And {len(found) - TOLD} more."] if len(found) > TOLD else told)


def _told(names: list[str]) -> str:
    """The names that a body had, in a sentence of limited length."""
    told = [_short(name) for name in names[:TOLD]]
    return listed([*told, f"{len(names) - TOLD} more"] if len(names) > TOLD else told, "and")


def _short(name: str) -> str:
    return name if len(name) <= NAME_TOLD else f"{name[:NAME_TOLD]}…"


def _suggestion(name: str) -> str:
    near = closest(name, KNOWN) if len(name) <= NAME_TOLD else ""
    return f"{name}: did you mean {near}?" if near else ""


def _malformed(message: str, evidence: str = "", next_step: str = "") -> StartRefused:
    return StartRefused(
        message,
        code="malformed_request",
        evidence=evidence,
        next_step=next_step or "Correct it; /openapi.json describes every route.",
    )
