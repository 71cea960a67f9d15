"""What can be started: trainers, schemes, backends; and the check of a backend."""

from __future__ import annotations

from fastapi import APIRouter

from potato_ray.server.access import Admin

router = APIRouter(prefix="/admin/training/api", tags=["catalogue"], dependencies=[Admin])
