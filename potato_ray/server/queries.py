"""What stands behind the `?` of an address: a misspelt name is refused, for it would choose nothing."""

from __future__ import annotations

from fastapi import Depends, Request
from fastapi.routing import APIRoute

from potato_ray.config.spelling import closest, listed
from potato_ray.server.problems import Rejected

_SHOWN_CHARACTERS = 60


async def known_query(request: Request) -> None:
    """Let the query parameters of the route pass. Raises Rejected (400) for any other."""
    route = request.scope.get("route")
    known = [each.alias for each in route.dependant.query_params] if isinstance(route, APIRoute) else []
    unknown = next((name for name in request.query_params if name not in known), None)
    if unknown is None:
        return
    name = unknown[:_SHOWN_CHARACTERS]
    near = closest(name, known)
    raise Rejected(
        400,
        f"This route takes no query parameter {name}.",
        code="malformed_request",
        evidence=f"It takes {listed(known, 'and') or 'none'}.",
        next_step=f"{name}: did you mean {near}?" if near else "/openapi.json describes every route.",
    )


KnownQuery = Depends(known_query)
"""For `dependencies=` of a router whose routes are for programs."""
