"""What is going on: the status, and the same as Server-Sent Events."""

from __future__ import annotations

import time

from fastapi import APIRouter

from potato_ray.server.access import Admin
from potato_ray.server.context import Context
from potato_ray.server.overview import Overview, overview

router = APIRouter(prefix="/admin/training/api", tags=["status"], dependencies=[Admin])


@router.get("/status", operation_id="get_status", summary="What is going on")
def status(context: Context) -> Overview:
    """The runs in progress, those that wait, and the one that ended last, all of one moment."""
    return overview(context, context.reader.snapshot(), time.time())
