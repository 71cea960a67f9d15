"""A file as an answer: whole or one range, checked against the ETag, and never run by a browser."""

from __future__ import annotations

import os
import re
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

from fastapi import Request, Response
from fastapi.responses import FileResponse

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

_RANGE = re.compile(r"(?i)bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")


def download(request: Request, path: Path, details: os.stat_result) -> Response:
    """The answer to a GET or HEAD of a file: 200, 206, 304 or 416.

    A browser that is sent there saves the file; a page may show it as a picture, which runs no script.
    """
    response = FileResponse(
        path,
        stat_result=details,
        filename=path.name,
        media_type=TYPES.get(path.suffix.lower(), OTHER_TYPE),
        headers={"Content-Security-Policy": FILE_POLICY},
    )
    if _known(request, response.headers["etag"]):
        kept = {name: response.headers[name] for name in ("etag", "last-modified")}
        return Response(status_code=304, headers=kept)
    asked, size = request.headers.get("range"), details.st_size
    start = None if asked is None else _start(asked, size)
    if start is not None and start < size:
        return response
    if start is not None and "if-range" not in request.headers:
        return _outside(size)
    _forget_range(request.scope)
    return response


def _known(request: Request, etag: str) -> bool:
    """Whether the caller has this very file already."""
    named = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    return etag in named or named == ["*"]


def _start(asked: str, size: int) -> int | None:
    """The first byte of a range; None for what is no single range, and passed over as if nobody had asked."""
    found = _RANGE.fullmatch(asked)
    if found is None:
        return None
    first, last, suffix = found.groups()
    if suffix:
        return max(0, size - int(suffix))
    return None if last and int(first) > int(last) else int(first)


def _outside(size: int) -> Response:
    problem = {
        "error": "The range lies outside the file.",
        "error_code": "unsatisfiable_range",
        "evidence": f"The file has {size} bytes.",
        "next_step": "Ask for a range within it, or for the whole file.",
    }
    return answer(416, problem, {"Content-Range": f"bytes */{size}"})


def _forget_range(scope: MutableMapping[str, Any]) -> None:
    scope["headers"] = [each for each in scope["headers"] if each[0].lower() != b"range"]
