"""Errors as answers: `application/problem+json` with a code and the next step (RFC 9457 members and ours).

    {"status": 404, "error": "No such run: x", "error_code": "unknown_run", "evidence": "", "next_step": "…"}

A refused start has `"started": false` besides. Neither a stack trace nor a path outside the project
ever leaves the server.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from potato_ray.errors import Conflict, NotFound, PotatoRayError, StartRefused
from potato_ray.hiding import hide_paths_but_installs
from potato_ray.server.context import ServerContext, Unavailable
from potato_ray.server.grants import granted_to
from potato_ray.server.rendering import page
from potato_ray.starting import HTTP_STATUS

logger = logging.getLogger(__name__)

MEDIA_TYPE = "application/problem+json"
START = "/admin/training/api/runs"
_FOR_PROGRAMS = ("/admin/training/api/", "/api/", "/static/")
_CODES = {
    400: "malformed_request",
    404: "not_found",
    405: "method_not_allowed",
    413: "body_too_large",
    416: "unsatisfiable_range",
}


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
        self,
        status: int,
        message: str,
        *,
        code: str,
        evidence: str = "",
        next_step: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, code=code, evidence=evidence, next_step=next_step)
        self.status = status
        self.headers = dict(headers or {})


_PASSING = frozenset({"controller_restarting", "registry_locked", "project_unwritable"})
"""Trouble that may be over when the request is sent again."""
_OF_HOSTS = frozenset(
    {"ssh_failed", "copy_broke_off", "copy_stalled", "copy_damaged", "copy_refused", "remote_files_stay"}
)
"""Trouble that another machine has, or the way to it."""


def status_of(error: PotatoRayError) -> int:
    """The HTTP status of an error of ours."""
    if isinstance(error, Rejected):
        return error.status
    if isinstance(error, StartRefused):
        return HTTP_STATUS.get(error.code, 400)
    if isinstance(error, NotFound):
        return 404
    if isinstance(error, Unavailable) or error.code in _PASSING:
        return 503
    if error.code == "disk_full":
        return 507
    if error.code in _OF_HOSTS:
        return 502
    if isinstance(error, Conflict):
        return 409
    return 500


class ProblemAnswer(JSONResponse):
    """A problem as an answer. What it says is settled when it is sent, as it depends on who asked:

    paths are hidden, a refused start says that it is none, and a browser that wants a page gets one.
    """

    media_type = MEDIA_TYPE

    def __init__(self, status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None):
        self.problem = {"status": status, **body}
        super().__init__({}, status, dict(headers or {}))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        context: ServerContext = scope["app"].state.context
        problem = {name: _fit(value, context.config.task_dir) for name, value in self.problem.items()}
        if (scope["method"], scope["path"]) == ("POST", START) and _nothing_came_of_it(problem):
            problem = {"started": False, **problem}
        if _wants_page(scope):
            self.body, self.headers["Content-Type"] = _as_page(scope, problem)
        else:
            self.body = self.render(problem)
        self.headers["Content-Length"] = str(len(self.body))
        await super().__call__(scope, receive, send)


_BEFORE_ALL = frozenset({"controller_unavailable", "registry_locked", "project_unwritable", "disk_full"})


def _nothing_came_of_it(problem: Mapping[str, Any]) -> bool:
    """Whether the request was refused, or met its trouble before anything was done."""
    return problem["status"] < 500 or problem["error_code"] in _BEFORE_ALL


def answer(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> ProblemAnswer:
    """A problem answer."""
    return ProblemAnswer(status, body, headers)


def of(error: PotatoRayError) -> ProblemAnswer:
    """An error of ours as an answer."""
    status = status_of(error)
    headers = {"Retry-After": str(Unavailable.retry_after_s)} if status in (503, 507) else {}
    if isinstance(error, Rejected):
        headers |= error.headers
    body: dict[str, Any] = dict(error.as_dict())
    if isinstance(error, StartRefused):
        body = {"started": False, **body}
    return answer(status, body, headers)


def _fit(value: Any, project: Path) -> Any:
    """A text that may be told to anybody; half a character, which no answer can hold, is escaped."""
    if not isinstance(value, str):
        return value
    return hide_paths_but_installs(value, project).encode("utf-8", "backslashreplace").decode("utf-8")


def _wants_page(scope: Scope) -> bool:
    if scope["method"] not in ("GET", "HEAD") or scope["path"].startswith(_FOR_PROGRAMS):
        return False
    return any("text/html" in value for value in Request(scope).headers.getlist("accept"))


def _as_page(scope: Scope, problem: Mapping[str, Any]) -> tuple[bytes, str]:
    context: ServerContext = scope["app"].state.context
    admin = granted_to(scope) is not None
    name = context.config.annotation_task_name if admin else ""
    shown = page("problem.html", project=name, here="problem", admin=admin, problem=problem)
    return bytes(shown.body), shown.headers["Content-Type"]


def install(app: FastAPI) -> None:
    """Answer every error of an application as a problem."""
    app.add_exception_handler(PotatoRayError, _own)
    app.add_exception_handler(RequestValidationError, _malformed)
    app.add_exception_handler(HTTPException, _of_the_framework)
    app.add_exception_handler(Exception, _unexpected)


async def _own(request: Request, error: Exception) -> ProblemAnswer:
    assert isinstance(error, PotatoRayError)  # noqa: S101 - what it is registered for
    return of(error)


async def _malformed(request: Request, error: Exception) -> ProblemAnswer:
    assert isinstance(error, RequestValidationError)  # noqa: S101 - what it is registered for
    found = "; ".join(f"{'.'.join(str(at) for at in each['loc'])}: {each['msg']}" for each in error.errors())
    body = PotatoRayError(
        "The request is not of the form that this route takes.",
        code="malformed_request",
        evidence=found,
        next_step="Correct it; /openapi.json describes every route.",
    ).as_dict()
    return answer(400, body)


async def _of_the_framework(request: Request, error: Exception) -> ProblemAnswer:
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    code = _CODES.get(error.status_code, "refused")
    body = PotatoRayError(
        str(error.detail), code=code, next_step="/openapi.json lists every route and method."
    ).as_dict()
    return answer(error.status_code, body, error.headers)


async def _unexpected(request: Request, error: Exception) -> ProblemAnswer:
    logger.error("%s %s failed", request.method, request.url.path, exc_info=error)
    body = PotatoRayError(
        "The server met an unexpected error.",
        code="unexpected",
        evidence=f"It was {type(error).__name__}; the server's own output has the rest.",
        next_step="Try again; if it happens again, report it with that output.",
    ).as_dict()
    return answer(500, body)
