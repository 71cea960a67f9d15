"""Errors as answers: `application/problem+json` with a code and the next step (RFC 9457 members and ours).

    {"status": 404, "error": "No such run: x", "error_code": "unknown_run", "evidence": "", "next_step": "…"}

A refused start has `"started": false` besides. Neither a stack trace nor a path outside the project
ever leaves the server.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from potato_ray.errors import Conflict, NotFound, PotatoRayError, StartRefused
from potato_ray.server.context import Unavailable
from potato_ray.starting import HTTP_STATUS

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"


class Problem(BaseModel):
    """What every refused request is answered with."""

    status: int
    error: str
    error_code: str
    evidence: str = ""
    next_step: str = ""


class Rejected(PotatoRayError):
    """A request that a route refuses with a status of its own."""

    def __init__(
        self, status: int, message: str, *, code: str, evidence: str = "", next_step: str = ""
    ) -> None:
        super().__init__(message, code=code, evidence=evidence, next_step=next_step)
        self.status = status


def status_of(error: PotatoRayError) -> int:
    """The HTTP status of an error of ours."""
    if isinstance(error, Rejected):
        return error.status
    if isinstance(error, StartRefused):
        return HTTP_STATUS.get(error.code, 400)
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Unavailable) or error.code == "controller_restarting":
        return 503
    if isinstance(error, Conflict):
        return 409
    return 500


def answer(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> JSONResponse:
    """A problem answer."""
    return JSONResponse({"status": status, **body}, status, dict(headers or {}), media_type=MEDIA_TYPE)


def install(app: FastAPI) -> None:
    """Answer every error of an application as a problem."""
    app.add_exception_handler(PotatoRayError, _own)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _of_the_framework)
    app.add_exception_handler(Exception, _unexpected)


async def _own(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, PotatoRayError)  # noqa: S101 - what it is registered for
    headers = {"Retry-After": str(error.retry_after_s)} if isinstance(error, Unavailable) else None
    body: dict[str, Any] = dict(error.as_dict())
    if isinstance(error, StartRefused):
        body = {"started": False, **body}
    return answer(status_of(error), body, headers)


async def _malformed(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is registered for
    found = "; ".join(f"{'.'.join(str(at) for at in each['loc'])}: {each['msg']}" for each in error.errors())
    body = PotatoRayError(
        "The request is not of the form that this route takes.",
        code="malformed_request",
        evidence=found,
        next_step="Correct it; /openapi.json describes every route.",
    ).as_dict()
    return answer(400, body)


async def _of_the_framework(request: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
    body = PotatoRayError(
        str(error.detail), code=code, next_step="/openapi.json lists every route and method."
    ).as_dict()
    return answer(error.status_code, body, error.headers)


async def _unexpected(request: Request, error: Exception) -> JSONResponse:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    body = PotatoRayError(
        "The server met an unexpected error.",
        code="unexpected",
        evidence=f"It was {type(error).__name__}; the server's own output has the rest.",
        next_step="Try again; if it happens again, report it with that output.",
    ).as_dict()
    return answer(500, body)
