"""Runs: start, list, look, cancel, withdraw."""

from __future__ import annotations

import uuid
from typing import Annotated, Any

from fastapi import Depends, Header, Query, Response

from potato_ray.registry.runs import Run
from potato_ray.server.access import Admin
from potato_ray.server.answers import Cancelled, RunInFull, RunList, StartBody, Started, Status
from potato_ray.server.context import Context
from potato_ray.server.grants import Grant
from potato_ray.server.openapi import problems, refusals
from potato_ray.server.problems import answer
from potato_ray.server.routes.api import RunId, api_router
from potato_ray.server.run_answers import found_run, in_full, json_answer, summary
from potato_ray.server.start_body import REQUEST_BODY, start_body
from potato_ray.starting import StartRequest

router = api_router("runs")

QUEUE_RETRY_AFTER_S = 10
KEY_FORM = r"^[!-~]{1,255}$"


@router.post(
    "/runs",
    operation_id="start_run",
    summary="Start a run",
    responses={
        200: {"model": Started, "description": "It starts at once."},
        202: {"model": Started, "description": "It waits; Location is where to look at it."},
        **refusals(400, 409, 429),
        **problems(503, 507),
    },
    openapi_extra=REQUEST_BODY,
)
async def start_run(
    context: Context,
    grant: Annotated[Grant, Admin],
    body: Annotated[StartBody, Depends(start_body)],
    idempotency_key: Annotated[
        str | None,
        Header(pattern=KEY_FORM, description="A repeat with the same key answers the run of the first time."),
    ] = None,
) -> Response:
    """Everything that can be refused is refused at once, with `"started": false` and an error_code."""
    said = await context.controller.command("start", _wanted(body, grant, idempotency_key))
    if not said["started"]:
        return _refused(said)
    headers = {"Location": f"{router.prefix}/runs/{said['run_id']}"}
    return json_answer(said, 202 if said["queued"] else 200, headers)


def _wanted(body: StartBody, grant: Grant, key: str | None) -> StartRequest:
    schemas = [body.schemas] if isinstance(body.schemas, str) else body.schemas
    return StartRequest(
        trainer=body.trainer,
        schemas=tuple(schemas),
        params=body.params,
        backend=body.backend or "",
        accept_licence=body.accept_licence,
        queue=body.queue,
        trigger="page" if grant is Grant.SESSION else "api",
        # The link repeats commands while the controller is being restarted.
        idempotency_key=key or uuid.uuid4().hex,
    )


def _refused(said: dict[str, Any]) -> Response:
    status = int(said["status"])
    body = dict(said)
    if said["error_code"] == "licence_not_confirmed":
        body["needs_licence_ack"] = True
    return answer(status, body, {"Retry-After": str(QUEUE_RETRY_AFTER_S)} if status == 429 else None)


@router.get(
    "/runs",
    operation_id="list_runs",
    summary="The newest runs",
    responses={200: {"model": RunList}},
)
def list_runs(
    context: Context,
    limit: Annotated[int, Query(ge=1, le=500, description="The most runs to answer.")] = 50,
    status: Annotated[Status | None, Query(description="Only runs of this status.")] = None,
    trainer: Annotated[str | None, Query(max_length=255, description="Only runs of this trainer.")] = None,
) -> Response:
    """Newest first, those that Potato itself made among them; scores in full are in each run alone."""
    runs = context.reader.runs(limit, None if status is None else status.value, trainer)
    return json_answer({"runs": [summary(context, run) for run in runs]})


@router.get(
    "/runs/{run_id}",
    operation_id="get_run",
    summary="One run with everything",
    responses={200: {"model": RunInFull}},
)
def get_run(context: Context, run_id: RunId) -> Response:
    """Scores, error, sizes, place, write-back, and the previous success to compare with."""
    run: Run = found_run(context, run_id)
    return json_answer(in_full(context, run))


@router.post(
    "/runs/{run_id}/cancel",
    operation_id="cancel_run",
    summary="Cancel a waiting or running run",
    responses={200: {"model": Cancelled}, **problems(409, 503, 507)},
)
async def cancel_run(context: Context, run_id: RunId) -> Response:
    """A waiting run ends at once; a running one gets SIGTERM, and SIGKILL after grace_seconds."""
    return json_answer(await context.controller.command("cancel", run_id))
