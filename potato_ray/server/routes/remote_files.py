"""What a run has left on the host that it ran on: listed, fetched, removed."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

from fastapi import Path, Request, Response

from potato_ray.backends.left_on_host import LeftOnHost, left_on_host
from potato_ray.server.answers import RemoteFile, RemoteFileList, RemoteFilesRemoved
from potato_ray.server.context import Context, ServerContext
from potato_ray.server.openapi import problems
from potato_ray.server.remote_files import RemoteFiles
from potato_ray.server.routes.api import RunId, api_router
from potato_ray.server.run_answers import folder_of, found_run, hidden, json_answer

router = api_router("remote files")

FilePath = Annotated[str, Path(description="The file's path, as the list names it.", min_length=1)]


@router.get(
    "/runs/{run_id}/remote-files",
    operation_id="list_remote_files",
    summary="The files of a run that stay on its host",
    responses={200: {"model": RemoteFileList}, **problems(409, 502)},
)
async def list_remote_files(context: Context, request: Request, run_id: RunId) -> Response:
    """Logs in to the host and looks; `state` says of each whether it is here, and how far a fetch is."""
    left = await _left(context, run_id)
    files = await _remote_files(request).listing(left)
    told = [_told(context, each) for each in files]
    return json_answer({"run_id": run_id, "host": left.host, "folder": left.artifacts, "files": told})


@router.post(
    "/runs/{run_id}/remote-files/{path:path}",
    operation_id="fetch_remote_file",
    summary="Fetch a file from the host",
    responses={
        200: {"model": RemoteFile, "description": "It is here already."},
        202: {"model": RemoteFile, "description": "It is being fetched; the list says how far it is."},
        **problems(409, 502),
    },
)
async def fetch_remote_file(context: Context, request: Request, run_id: RunId, path: FilePath) -> Response:
    """Into the run's artifacts, in the background; one that broke off goes on where it was."""
    file = await _remote_files(request).fetch(await _left(context, run_id), path)
    return json_answer(_told(context, file), 200 if file["state"] == "here" else 202)


@router.delete(
    "/runs/{run_id}/remote-files/{path:path}",
    operation_id="stop_remote_file",
    summary="Stop fetching a file from the host",
    responses={200: {"model": RemoteFile}, **problems(409, 502)},
)
async def stop_remote_file(context: Context, request: Request, run_id: RunId, path: FilePath) -> Response:
    """What has come of it stays for the next fetch; nothing on the host is touched."""
    file = await _remote_files(request).stop(await _left(context, run_id), path)
    return json_answer(_told(context, file))


@router.delete(
    "/runs/{run_id}/remote-files",
    operation_id="remove_remote_files",
    summary="Remove what a run left on its host",
    responses={200: {"model": RemoteFilesRemoved}, **problems(409, 502, 503, 507)},
)
async def remove_remote_files(context: Context, request: Request, run_id: RunId) -> Response:
    """The whole folder of the run over there; what was fetched stays here."""
    left = await _left(context, run_id)
    await _remote_files(request).remove(left)
    return json_answer({"run_id": run_id, "host": left.host, "removed": left.folder})


async def _left(context: ServerContext, run_id: str) -> LeftOnHost:
    def look() -> LeftOnHost:
        return left_on_host(context.config, found_run(context, run_id), folder_of(context, run_id))

    return await asyncio.to_thread(look)


def _told(context: ServerContext, file: dict[str, Any]) -> dict[str, Any]:
    """A file as people see it: the reason of a failure names no path outside the project."""
    problem = file["problem"]
    if problem is None:
        return file
    return {**file, "problem": {name: hidden(context, text) for name, text in problem.items()}}


def _remote_files(request: Request) -> RemoteFiles:
    state = request.app.state
    if not hasattr(state, "remote_files"):
        state.remote_files = RemoteFiles()
    found: RemoteFiles = state.remote_files
    return found
