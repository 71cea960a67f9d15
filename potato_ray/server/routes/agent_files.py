"""The files between agent and server: the agent itself, the code, a job's bundle, its predictions."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Request, Response

from potato_ray.agent.protocol import PYZ, code_path, job_path
from potato_ray.errors import NotFound
from potato_ray.server.agent_door import AgentJob, Bearer, Door, ItsDoor, Job, Speaking
from potato_ray.server.agent_headers import body_digest
from potato_ray.server.agent_taking import begin_upload, find_bundle, finish_upload
from potato_ray.server.downloads import download
from potato_ray.server.openapi import media, problems
from potato_ray.server.problems import Rejected
from potato_ray.server.routes.agent_jobs import RunId
from potato_ray.server.run_answers import json_answer
from potato_ray.server.uploads import announced_bytes, pieces
from potato_ray.shipping.agent_file import NAME, agent_file
from potato_ray.shipping.code_archive import find_code

router = APIRouter(tags=["agents"])

MB = 2**20
_BYTES: dict[str, Any] = {"application/octet-stream": {"type": "string", "format": "binary"}}
_PARTLY: dict[int | str, dict[str, Any]] = {
    206: media(_BYTES, "The range that was asked for."),
    304: {"description": "It is the one of If-None-Match."},
}


@router.get(
    PYZ,
    operation_id="get_agent",
    summary="Fetch the agent as one file",
    response_class=Response,
    responses={
        200: media(_BYTES, "A program for Python 3.8 or newer."),
        304: {"description": "It is the one of If-None-Match."},
    },
)
async def get_agent(door: ItsDoor, agent: Bearer, request: Request) -> Response:
    """Needs the token, and no version of the protocol: it is what a machine begins with."""
    made = await door.in_thread(agent_file)
    headers = {"ETag": f'"{made.sha256}"', "Content-Disposition": f'attachment; filename="{NAME}"'}
    if request.headers.get("if-none-match") == headers["ETag"]:
        return Response(status_code=304, headers=headers)
    return Response(made.data, headers=headers, media_type="application/octet-stream")


async def get_job_code(
    door: ItsDoor,
    agent: Speaking,
    request: Request,
    sha256: Annotated[str, Path(description="The digest that the job names.", min_length=1, max_length=255)],
) -> Response:
    """A tar.gz with the package that launcher and worker need."""
    return await door.in_thread(_code, door, request, sha256)


def _code(door: Door, request: Request, sha256: str) -> Response:
    path = find_code(door.context.config.state_dir, sha256)
    if path is None:
        raise NotFound(
            "There is no code of this digest.",
            code="unknown_code",
            evidence="The server keeps the code of its present version, and that of a few earlier ones.",
            next_step="Report a result with `failure`: the same claim names the same code again.",
        )
    return download(request, path, etag=f'"{sha256}"')


async def get_job_bundle(door: ItsDoor, job: Job, request: Request, run_id: RunId) -> Response:
    """A tar.gz, whole or a range of it; its strong ETag is the sha256 of the whole."""
    return await door.in_thread(_bundle, door, job, request)


def _bundle(door: Door, job: AgentJob, request: Request) -> Response:
    path, sha256 = find_bundle(door, job)
    return download(request, path, etag=f'"{sha256}"')


def _serve(path: str, answers: Any, operation: str, summary: str, *besides: int) -> None:
    """Add a download: GET, and HEAD for its size."""
    shared: dict[str, Any] = {"response_class": Response, "summary": summary}
    responses = {200: media(_BYTES, "A tar.gz."), **_PARTLY, **problems(404, 416, *besides)}
    router.add_api_route(
        path, answers, methods=["GET"], operation_id=operation, responses=responses, **shared
    )
    router.add_api_route(path, answers, methods=["HEAD"], include_in_schema=False, **shared)


_serve(code_path("{sha256}"), get_job_code, "get_job_code", "Fetch the code of a job")
_serve(job_path("{run_id}", "bundle"), get_job_bundle, "get_job_bundle", "Fetch the bundle of a job", 409)


@router.put(
    job_path("{run_id}", "predictions"),
    operation_id="put_job_predictions",
    summary="Send the predictions of a job",
    response_model=None,
    responses={200: {"description": "They are there."}, **problems(404, 409, 411, 507)},
    openapi_extra={
        "requestBody": {
            "required": True,
            "description": "predictions.jsonl; Content-Length and Potato-Ray-Sha256 go with it.",
            "content": {"application/octet-stream": {"schema": {"type": "string", "format": "binary"}}},
        }
    },
)
async def put_job_predictions(door: ItsDoor, job: Job, request: Request, run_id: RunId) -> Response:
    """Streamed. Past max_predictions_mb it is refused before it is read; sent again it replaces."""
    n_bytes, sha256 = _announced(door, request), body_digest(request.scope)
    upload = await door.in_thread(begin_upload, door, job, n_bytes, sha256)
    try:
        async for piece in pieces(request):
            await door.in_thread(upload.write, piece)
        await door.in_thread(finish_upload, door, job, upload)
    finally:
        upload.discard()
    return json_answer({"bytes": n_bytes})


def _announced(door: Door, request: Request) -> int:
    """The length of the predictions. Raises Rejected (411, 413)."""
    n_bytes = announced_bytes(request)
    if n_bytes is None:
        raise Rejected(
            411,
            "The predictions come without their length.",
            code="length_required",
            next_step="Send the header Content-Length; chunks are not taken.",
        )
    limit_mb = door.context.config.model_training.max_predictions_mb
    if n_bytes > limit_mb * MB:
        raise Rejected(
            413,
            f"The predictions are larger than max_predictions_mb, {limit_mb:g} MB.",
            code="predictions_too_large",
            evidence=f"They are {n_bytes / MB:.1f} MB.",
            next_step="Raise model_training.max_predictions_mb, or let the trainer say less of each item.",
        )
    return n_bytes
