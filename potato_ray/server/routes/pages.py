"""The Training page, the icon, and the ways that lead to the page."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import FileResponse, RedirectResponse

from potato_ray.server.static_files import FOLDER

router = APIRouter(include_in_schema=False)


@router.get("/")
@router.get("/admin")
@router.get("/admin/")
def to_the_training_page() -> RedirectResponse:
    """There is one page to begin with."""
    return RedirectResponse("/admin/training", 302)


@router.get("/favicon.ico")
def icon() -> FileResponse:
    """What browsers ask for by themselves."""
    return FileResponse(FOLDER / "favicon.svg", media_type="image/svg+xml")
