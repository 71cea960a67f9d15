"""`/health`: whether this process answers, and how far its controller is."""

from __future__ import annotations

from fastapi import APIRouter

from potato_ray.server.context import Context

router = APIRouter()


@router.get("/health", operation_id="health")
async def health(context: Context) -> dict[str, str]:
    """Answers at once, also while Ray comes up; needs no key and says nothing of the project."""
    # No thread is needed for it, so that slow reads, which may hold all of them, keep nobody from knowing.
    return {"status": "ok", "controller": context.controller.phase}
