"""The page of one run."""

from __future__ import annotations

import time

from fastapi import APIRouter, Request, Response

from potato_ray.errors import NotFound
from potato_ray.registry.runs import Run
from potato_ray.server.access import Admin
from potato_ray.server.agents_panel import AgentPanel, address_for_agents, agent_backend
from potato_ray.server.context import Context, ServerContext
from potato_ray.server.rendering import page
from potato_ray.server.run_answers import found_run
from potato_ray.server.run_rows import ran_on, status_label
from potato_ray.server.run_view import run_page

router = APIRouter(include_in_schema=False, dependencies=[Admin])


@router.get("/admin/training/runs/{run_id}")
def show_run(context: Context, request: Request, run_id: str) -> Response:
    """The page; 404, as a page too, for a run that is not known (any more)."""
    project = context.config.annotation_task_name
    try:
        run = found_run(context, run_id)
    except NotFound as missing:
        return page("run_missing.html", 404, project=project, missing=missing)
    shown = run_page(context, run)
    return page(
        "run.html",
        project=project,
        shown=shown,
        run=run,
        label=status_label(run),
        ran_on=ran_on(run),
        agents=_agents(context, request, run) if shown.live else None,
    )


def _agents(context: ServerContext, request: Request, run: Run) -> AgentPanel | None:
    """The agents that may take a run; None where it is for none."""
    address = address_for_agents(request)
    return agent_backend(context.config, context.reader, run.backend, time.time(), address)
