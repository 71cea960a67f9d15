"""What the routes for programs have in common."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from potato_ray.server.access import Admin
from potato_ray.server.queries import KnownQuery

RunId = Annotated[str, Path(description="The run's identifier.", min_length=1, max_length=255)]


def api_router(group: str) -> APIRouter:
    """A router for admins; its routes refuse every query parameter that they do not take."""
    return APIRouter(prefix="/admin/training/api", tags=[group], dependencies=[Admin, KnownQuery])
