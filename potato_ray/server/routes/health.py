"""`/health`: whether this process answers, and how far its controller is."""

from __future__ import annotations

from fastapi import APIRouter

from potato_ray.server.context import Context

router = APIRouter()


@router.get("/health", operation_id="health")
def health(context: Context) -> dict[str, str]:
    """Answers at once, also while Ray comes up; needs no key and says nothing of the project."""
    return {"status": "ok", "controller": context.controller.phase}
