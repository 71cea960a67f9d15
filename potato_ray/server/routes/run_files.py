"""What a run leaves: events, log, predictions, files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from itertools import islice
from typing import Annotated, Any

from fastapi import Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from potato_ray.errors import NotFound
from potato_ray.registry.runs import to_json
from potato_ray.run_log import PAGE, log_lines
from potato_ray.server.answers import ArtifactList, EventPage, Withdrawn
from potato_ray.server.artifact_files import artifact_files, find_artifact
from potato_ray.server.context import Context, ServerContext
from potato_ray.server.downloads import OTHER_TYPE, TYPES, download
from potato_ray.server.openapi import media, problems
from potato_ray.server.routes.api import RunId, api_router
from potato_ray.server.run_answers import folder_of, found_run, json_answer, shown_event, told_event

router = api_router("run files")

ROWS = 1000
MAX_EVENTS = 1000
MAX_NUMBER = 2**53 - 1
"""The greatest whole number that every JSON reader keeps exactly."""

_TEXT = {"text/plain": {"type": "string"}}
_LINES = {"application/x-ndjson": {"type": "string", "description": "One JSON object a line."}}
_FILE: dict[str, dict[str, str]] = {
    kind.partition(";")[0]: {} for kind in sorted({*TYPES.values(), OTHER_TYPE})
}


@router.get(
    "/runs/{run_id}/events",
    operation_id="list_run_events",
    summary="Events of a run, page by page",
    responses={200: {"model": EventPage}},
)
def list_run_events(
    context: Context,
    run_id: RunId,
    after: Annotated[int, Query(ge=0, le=MAX_NUMBER, description="Only events with a greater id.")] = 0,
    limit: Annotated[int, Query(ge=1, le=MAX_EVENTS, description="The most events to answer.")] = 200,
) -> Response:
    """In their order; `next` is what to send as `after` for the page behind this one."""
    found_run(context, run_id)
    events = context.reader.events(run_id, after, limit)
    body = {
        "events": [told_event(context, event) for event in events],
        "next": events[-1]["id"] if events else after,
    }
    return json_answer(body)


@router.get(
    "/runs/{run_id}/log",
    operation_id="get_run_log",
    summary="The log of a run",
    response_class=Response,
    responses={200: media(_TEXT, "One line for each event that says something to a person; times are UTC.")},
)
def get_run_log(context: Context, run_id: RunId) -> Response:
    """Plain text, as far as it is written."""
    found_run(context, run_id)
    return StreamingResponse(_log(context, run_id), media_type="text/plain; charset=utf-8")


def _log(context: ServerContext, run_id: str) -> Iterator[bytes]:
    after = 0
    while page := context.reader.events(run_id, after=after, limit=PAGE):
        after = int(page[-1]["id"])
        lines = log_lines(shown_event(context, event) for event in page)
        yield "".join(f"{line}\n" for line in lines).encode("utf-8", "backslashreplace")


@router.get(
    "/runs/{run_id}/predictions",
    operation_id="get_run_predictions",
    summary="The stored predictions of a run",
    response_class=Response,
    responses={200: media(_LINES, "instance_id, schema_name, payload and confidence, in order of item.")},
)
def get_run_predictions(context: Context, run_id: RunId) -> Response:
    """Those neither withdrawn nor superseded; all that it made are in artifacts/predictions.jsonl."""
    found_run(context, run_id)
    return StreamingResponse(_predictions(context, run_id), media_type="application/x-ndjson")


def _predictions(context: ServerContext, run_id: str) -> Iterator[bytes]:
    """The lines, a page at a time: a slow reader must not keep the database from being tidied up."""
    after = ("", "")
    while True:
        stored = context.reader.predictions(run_id, after)
        page = list(islice(stored, ROWS))
        stored.close()
        if page:
            yield "".join(f"{to_json(asdict(each))}\n" for each in page).encode("ascii")
            after = (page[-1].instance_id, page[-1].schema_name)
        if len(page) < ROWS:
            return


@router.delete(
    "/runs/{run_id}/predictions",
    operation_id="withdraw_run_predictions",
    summary="Withdraw the predictions of a run",
    responses={200: {"model": Withdrawn}, **problems(409, 503, 507)},
)
async def withdraw_run_predictions(context: Context, run_id: RunId) -> Response:
    """Takes its pre-labels off the items; what annotators made of them stays."""
    removed = await context.controller.command("withdraw", run_id)
    return json_answer({"run_id": run_id, "withdrawn": removed})


@router.get(
    "/runs/{run_id}/artifacts",
    operation_id="list_run_artifacts",
    summary="The files of a run",
    responses={200: {"model": ArtifactList}},
)
def list_run_artifacts(context: Context, run_id: RunId) -> Response:
    """Model files, predictions, pictures of the scores: what lies in the run's artifacts folder."""
    found_run(context, run_id)
    folder = folder_of(context, run_id)
    files = artifact_files(folder) if folder is not None else []
    return json_answer({"run_id": run_id, "artifacts": [asdict(each) for each in files]})


def get_run_artifact(
    context: Context,
    request: Request,
    run_id: RunId,
    path: Annotated[str, Path(description="The file's path, as the list names it.", min_length=1)],
) -> Response:
    """One file, whole or a range of it, with an ETag of its size and time."""
    found_run(context, run_id)
    folder = folder_of(context, run_id)
    if folder is None:
        raise NotFound("This run has no files.", code="unknown_artifact", next_step="Look at the run.")
    return download(request, find_artifact(folder, path))


_DOWNLOAD: dict[str, Any] = {"response_class": Response, "summary": "Download a file of a run"}

router.add_api_route(
    "/runs/{run_id}/artifacts/{path:path}",
    get_run_artifact,
    methods=["GET"],
    operation_id="get_run_artifact",
    responses={
        200: media(_FILE, "The file."),
        206: media(_FILE, "The range that was asked for."),
        304: {"description": "The file is the one of If-None-Match."},
        **problems(416),
    },
    **_DOWNLOAD,
)
router.add_api_route(
    "/runs/{run_id}/artifacts/{path:path}",
    get_run_artifact,
    methods=["HEAD"],
    include_in_schema=False,
    **_DOWNLOAD,
)
