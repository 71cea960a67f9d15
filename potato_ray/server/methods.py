"""What is answered to a method that a route does not take: all those that it takes."""

from __future__ import annotations

from fastapi import FastAPI, Request
from starlette.routing import BaseRoute, Match, Mount
from starlette.types import Scope

from potato_ray.server.problems import ProblemAnswer, answer

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")


def install(app: FastAPI) -> None:
    """Let the application name every method: the framework names those of one route of the path."""
    app.add_exception_handler(405, _not_allowed)


async def _not_allowed(request: Request, error: Exception) -> ProblemAnswer:
    allowed = ", ".join(allowed_methods(request.app, request.scope))
    problem = {
        "error": f"This address does not take {request.method}.",
        "error_code": "method_not_allowed",
        "evidence": f"It takes {allowed}.",
        "next_step": "/openapi.json lists every route and method.",
    }
    return answer(405, problem, {"Allow": allowed})


def allowed_methods(app: FastAPI, scope: Scope) -> list[str]:
    """The methods that some route takes at the address of a request."""
    # A mount has put its own path into the scope, and then no route would match.
    return [method for method in METHODS if takes(app, {**scope, "root_path": "", "method": method})]


def takes(app: FastAPI, scope: Scope) -> bool:
    """Whether some route takes this request, by its address and method."""
    return any(
        route.matches(scope)[0] is Match.FULL for route in app.router.routes if _may_take(route, scope)
    )


def _may_take(route: BaseRoute, scope: Scope) -> bool:
    """A mount matches any method; what is mounted here are files."""
    return not isinstance(route, Mount) or scope["method"] in ("GET", "HEAD")
