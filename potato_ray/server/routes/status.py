"""What is going on: the status, and the same as Server-Sent Events."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import Header, Query, Request, Response
from sse_starlette import EventSourceResponse

from potato_ray.registry.runs import to_json
from potato_ray.server.access import keeper_of
from potato_ray.server.context import Context
from potato_ray.server.feed import feed_of
from potato_ray.server.grants import Grant, granted_to
from potato_ray.server.openapi import media, problems
from potato_ray.server.overview import EXAMPLE, Overview, overview
from potato_ray.server.problems import Rejected
from potato_ray.server.routes.api import api_router
from potato_ray.server.run_answers import found_run, json_answer

router = api_router("status")

_FAREWELL_S = 1.0
"""How long a stream may take to end by itself when the server stops."""
_NUMBER = re.compile(r"[0-9]{1,18}")
_STREAM: dict[str, Any] = media(
    {
        "text/event-stream": {
            "type": "string",
            "examples": [f"retry: 2000\n\nid: 1795981525000041\nevent: status\ndata: {to_json(EXAMPLE)}\n\n"],
        }
    },
    "Messages without end: `status` and `run`, each with an `id` to go on from.",
)


@router.get("/status", operation_id="get_status", summary="What is going on", response_model=Overview)
def status(context: Context) -> Response:
    """The runs in progress, those that wait, and the one that ended last, all of one moment."""
    return json_answer(overview(context, context.reader.snapshot(), time.time()))


@router.get(
    "/stream",
    operation_id="stream_status",
    summary="What is going on, as it happens",
    response_class=Response,
    responses={200: _STREAM, **problems(400, 503)},
)
async def stream(
    request: Request,
    context: Context,
    after: Annotated[
        str | None,
        Query(
            description="Begin behind the message with this id; 0: the first",
            json_schema_extra={"pattern": f"^{_NUMBER.pattern}$"},  # answered here, with a code of its own
        ),
    ] = None,
    run_id: Annotated[str | None, Query(description="Only `run` messages about this run")] = None,
    last_event_id: Annotated[
        str | None, Header(description="As `after`, and before it: browsers send it when they reconnect")
    ] = None,
) -> Response:
    """Server-Sent Events: `status` at connect and at each change, `run` for what happens in a run.

    Without `after` or `Last-Event-ID` it begins at now. A client that goes on from the last id it has seen
    gets every later `run` message once, whatever happened in between.
    """
    number = _number(last_event_id or after)
    if run_id is not None:
        await asyncio.to_thread(found_run, context, run_id)
    feed = feed_of(request.app)
    now = await feed.begin()
    said = feed.stream(now if number is None else number, run_id, _while_allowed(request))
    return EventSourceResponse(
        said,
        ping=0,  # the feed has a heartbeat of its own, one for all
        shutdown_event=feed.stopping,
        shutdown_grace_period=_FAREWELL_S,
    )


def _number(cursor: str | None) -> int | None:
    if cursor is None:
        return None
    if _NUMBER.fullmatch(cursor) is None:
        raise Rejected(
            400,
            "The place to go on from is no id of this stream.",
            code="bad_cursor",
            evidence=f"It is {cursor[:40]!r}.",
            next_step="Send an id that came with a message, 0 for the beginning, or none to begin at now.",
        )
    return int(cursor)


def _while_allowed(request: Request) -> Callable[[], bool]:
    """Whether who opened the stream may still read it: a session ends."""
    keeper = keeper_of(request)
    token = keeper.session_of(request)
    if granted_to(request.scope) is not Grant.SESSION or token is None:
        return lambda: True
    return lambda: keeper.sessions.holds(token)
