"""What is going on: the status, and the same as Server-Sent Events."""

from __future__ import annotations

from fastapi import APIRouter

from potato_ray.server.access import Admin

router = APIRouter(prefix="/admin/training/api", tags=["status"], dependencies=[Admin])
