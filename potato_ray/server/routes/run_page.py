"""The page of one run."""

from __future__ import annotations

from fastapi import APIRouter, Response

from potato_ray.errors import NotFound
from potato_ray.server.access import Admin
from potato_ray.server.context import Context
from potato_ray.server.rendering import page
from potato_ray.server.run_answers import found_run
from potato_ray.server.run_rows import ran_on, status_label
from potato_ray.server.run_view import run_page

router = APIRouter(include_in_schema=False, dependencies=[Admin])


@router.get("/admin/training/runs/{run_id}")
def show_run(context: Context, run_id: str) -> Response:
    """The page; 404, as a page too, for a run that is not known (any more)."""
    project = context.config.annotation_task_name
    try:
        run = found_run(context, run_id)
    except NotFound as missing:
        return page("run_missing.html", 404, project=project, missing=missing)
    shown = run_page(context, run)
    return page(
        "run.html", project=project, shown=shown, run=run, label=status_label(run), ran_on=ran_on(run)
    )
