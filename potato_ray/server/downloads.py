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

TYPES = {
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".json": "application/json",
    ".jsonl": "application/x-ndjson",
    ".txt": "text/plain; charset=utf-8",
}
OTHER_TYPE = "application/octet-stream"
SANDBOX = "default-src 'none'; style-src 'unsafe-inline'; sandbox"

_RANGE = re.compile(r"bytes=(?:(\d{1,18})-(\d{0,18})|-(\d{1,18}))")


def download(request: Request, path: Path, details: os.stat_result) -> Response:
    """The answer to a GET or HEAD of a file: 200, 206, 304 or 416.

    A browser that is sent there saves the file; a page may show it as a picture, which runs no script.
    """
    response = FileResponse(
        path,
        stat_result=details,
        filename=path.name,
        media_type=TYPES.get(path.suffix.lower(), OTHER_TYPE),
        headers={"Content-Security-Policy": SANDBOX},
    )
    if _known(request, response.headers["etag"]):
        kept = {name: response.headers[name] for name in ("etag", "last-modified")}
        return Response(status_code=304, headers=kept)
    return _unsatisfiable(request, details.st_size) or response


def _known(request: Request, etag: str) -> bool:
    """Whether the caller has this very file already."""
    named = [each.strip().removeprefix("W/") for each in request.headers.get("if-none-match", "").split(",")]
    return etag in named or named == ["*"]


def _unsatisfiable(request: Request, size: int) -> Response | None:
    """The answer to a range outside the file. What is no range of this form is left out of the request."""
    asked = request.headers.get("range")
    if asked is None:
        return None
    found = _RANGE.fullmatch(asked.strip().lower())
    first, last, suffix = found.groups() if found else (None, None, None)
    if not found or (first and last and int(first) > int(last)):
        _forget_range(request.scope)
        return None
    if int(suffix) > 0 and size > 0 if suffix else int(first or 0) < size:
        return None
    if request.headers.get("if-range") is not None:
        _forget_range(request.scope)
        return None
    problem = {
        "error": "The range lies outside the file.",
        "error_code": "unsatisfiable_range",
        "evidence": f"The file has {size} bytes.",
        "next_step": "Ask for a range within it, or for the whole file.",
    }
    return answer(416, problem, {"Content-Range": f"bytes */{size}"})


def _forget_range(scope: MutableMapping[str, Any]) -> None:
    scope["headers"] = [each for each in scope["headers"] if each[0].lower() != b"range"]
