"""What a run leaves: events, log, predictions, files."""

from __future__ import annotations

from fastapi import APIRouter

from potato_ray.server.access import Admin

router = APIRouter(prefix="/admin/training/api", tags=["runs"], dependencies=[Admin])
