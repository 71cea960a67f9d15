"""The Training page, the icon, and the ways that lead to the page."""

from __future__ import annotations

import time
from typing import Annotated
from urllib.parse import urlencode

from fastapi import APIRouter, Query, Request
from fastapi.responses import FileResponse, RedirectResponse, Response

from potato_ray.registry.runs import Run
from potato_ray.registry.states import State
from potato_ray.server.access import Admin
from potato_ray.server.agents_panel import address_for_agents, agent_backends, waiting_words
from potato_ray.server.catalogue import backends_body
from potato_ray.server.context import Context, ServerContext
from potato_ray.server.overview import overview
from potato_ray.server.rendering import FILES, page
from potato_ray.server.run_cards import BLANK_RUN, KEY_METRICS, key_metrics
from potato_ray.server.run_rows import Filters, row_of, waiting_label
from potato_ray.server.start_form import start_form
from potato_ray.trainers.registry import trainer_names

RUNS_SHOWN = 50
MOST_RUNS_SHOWN = 500
FILTERS_FROM = 8
"""So many runs make it worth while to choose among them."""

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
    return FileResponse(FILES / "favicon.svg", media_type="image/svg+xml")


@router.get("/admin/training", dependencies=[Admin])
def training_page(
    context: Context,
    request: Request,
    status: Annotated[str, Query(max_length=40)] = "",
    trainer: Annotated[str, Query(max_length=255)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST_RUNS_SHOWN)] = RUNS_SHOWN,
) -> Response:
    """The form, what is going on, and the runs; `status` and `trainer` choose among the runs."""
    config, reader, at = context.config, context.reader, time.time()
    runs = reader.runs(limit + 1, status or None, trainer or None)
    agents = agent_backends(config, reader, at, address_for_agents(request))
    backends = backends_body(config, reader, at)["backends"]
    return page(
        "training.html",
        project=config.annotation_task_name,
        here="training",
        now=overview(context, reader.snapshot(), at),
        form=start_form(config, backends, agents),
        agents=agents,
        starts={view.name: view.start for view in agents},
        rows=[row_of(context, run) for run in runs[:limit]],
        more=_more(status, trainer) if len(runs) > limit and limit < MOST_RUNS_SHOWN else "",
        filters=_filters(context, runs, status, trainer),
        blank=BLANK_RUN,
        key_metrics=key_metrics,
        most_metrics=KEY_METRICS,
        waiting_label=waiting_label,
        waiting_words=waiting_words,
    )


def _more(status: str, trainer: str) -> str:
    return (
        f"/admin/training?{urlencode({'status': status, 'trainer': trainer, 'limit': MOST_RUNS_SHOWN})}#runs"
    )


def _filters(context: ServerContext, runs: list[Run], status: str, trainer: str) -> Filters:
    active = bool(status or trainer)
    return Filters(
        offered=active or len(runs) >= FILTERS_FROM,
        active=active,
        status=status,
        trainer=trainer,
        statuses=(*(state.value for state in State if state is not State.OFFERED), "cancelling"),
        trainers=tuple(sorted({*trainer_names(), *(run.trainer for run in runs)})),
    )
