"""A file as an answer: whole or one range, checked against the ETag, and never run by a browser."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import AsyncIterator, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import BinaryIO
from urllib.parse import quote

import anyio.to_thread
from fastapi import Request, Response
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from potato_ray.errors import NotFound
from potato_ray.server.problems import answer
from potato_ray.server.shields import FILE_POLICY

TYPES = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".txt": "text/plain; charset=utf-8",
}
OTHER_TYPE = "application/octet-stream"
CHUNK_BYTES = 256 * 1024

_RANGE = re.compile(r"(?i)bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")


class FilePart(StreamingResponse):
    """So many bytes of an open file from some place on, and no more when it grows; closes the file."""

    def __init__(
        self, file: BinaryIO, start: int, length: int, status: int, headers: Mapping[str, str]
    ) -> None:
        super().__init__(_bytes_of(file, start, length), status, {**headers, "Content-Length": str(length)})
        self._file = file

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._file.close()


def download(request: Request, path: Path, etag: str = "") -> Response:
    """The answer to a GET or HEAD of a file: 200, 206, 304 or 416. Raises NotFound.

    Without an `etag` (in quotes) of its own, a file has one of its size and time.

    A browser that is sent there saves the file; a page may show it as a picture, which runs no script.
    """
    file = _opened(path)
    try:
        response = _answer(request, path, file, etag)
    except BaseException:
        file.close()
        raise
    if not isinstance(response, FilePart):
        file.close()
    return response


def _answer(request: Request, path: Path, file: BinaryIO, etag: str) -> Response:
    # Of the file that is open: whatever is written or moved there meanwhile, this is what is sent.
    details = os.fstat(file.fileno())
    size = details.st_size
    kept = {
        "ETag": etag or f'"{details.st_mtime_ns:x}-{size:x}"',
        "Last-Modified": formatdate(details.st_mtime, usegmt=True),
    }
    headers = {**kept, **_as_file(path)}
    if _known(request, kept["ETag"]):
        return Response(status_code=304, headers=kept)
    if request.method == "HEAD":
        return Response(headers={**headers, "Content-Length": str(size)})
    part = _part(request.headers.get("range", ""), size)
    if part is None or request.headers.get("if-range", kept["ETag"]) not in kept.values():
        return FilePart(file, 0, size, 200, headers)
    start, end = part
    if start >= size:
        return _outside(size)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    return FilePart(file, start, end - start, 206, headers)


def _opened(path: Path) -> BinaryIO:
    """The file, not what a link in its place leads to; a pipe in its place is not waited for."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        file = os.fdopen(number, "rb", buffering=0)
    except OSError as failure:
        raise _unreadable(path, failure.strerror or type(failure).__name__) from None
    if not stat.S_ISREG(os.fstat(number).st_mode):
        file.close()
        raise _unreadable(path, "It is no file.")
    return file


def _unreadable(path: Path, why: str) -> NotFound:
    return NotFound(
        f"The file {path.name!r} cannot be opened."[:300],
        code="unknown_artifact",
        evidence=why,
        next_step="GET …/artifacts lists the run's files; the server's user has to be allowed to read them.",
    )


async def _bytes_of(file: BinaryIO, start: int, length: int) -> AsyncIterator[bytes]:
    await anyio.to_thread.run_sync(file.seek, start)
    while length > 0:
        chunk = await anyio.to_thread.run_sync(file.read, min(CHUNK_BYTES, length))
        if not chunk:
            raise EOFError("the file has become shorter while it was sent")
        length -= len(chunk)
        yield chunk


def _as_file(path: Path) -> dict[str, str]:
    """Headers that make it a file to save, under its name."""
    name = quote(os.fsencode(path.name))
    return {
        "Accept-Ranges": "bytes",
        "Content-Type": TYPES.get(path.suffix.lower(), OTHER_TYPE),
        "Content-Disposition": f'attachment; filename="{name}"'
        if name == path.name
        else f"attachment; filename*=utf-8''{name}",
        "Content-Security-Policy": FILE_POLICY,
    }


def _known(request: Request, etag: str) -> bool:
    """Whether the caller has this very file already."""
    named = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    return etag in named or named == ["*"]


def _part(asked: str, size: int) -> tuple[int, int] | None:
    """Where a range begins and ends; None for what is no single range, passed over as if nobody had asked."""
    found = _RANGE.fullmatch(asked)
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix:
        return max(0, size - int(suffix)) if int(suffix) else size, size
    if last and int(first) > int(last):
        return None
    return int(first), min(size, int(last) + 1) if last else size


def _outside(size: int) -> Response:
    problem = {
        "error": "The range lies outside the file.",
        "error_code": "unsatisfiable_range",
        "evidence": f"The file has {size} bytes.",
        "next_step": "Ask for a range within it, or for the whole file.",
    }
    return answer(416, problem, {"Content-Range": f"bytes */{size}"})
