"""Waiting for Ray tasks, and turning what they raise into errors of ours."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from potato_ray.errors import PotatoRayError, RunFailed

logger = logging.getLogger(__name__)


async def answer_of(reference: Any) -> Any:
    """What a Ray task returns; raises what it raised."""
    return await reference


def forget(future: asyncio.Future[Any]) -> None:
    """Take a result that nobody waits for any more, so that asyncio does not complain of it."""
    if not future.cancelled():
        future.exception()


def task_failure(error: Exception, code: str, doing: str) -> PotatoRayError:
    """The error of ours inside a Ray error, or one with `code` that says what was being done."""
    cause = getattr(error, "cause", None)
    if isinstance(cause, PotatoRayError):
        return cause
    logger.error("%s failed: %s", doing, error)
    lines = str(cause or error).splitlines()
    return RunFailed(
        f"The run failed while {doing}.",
        code=code,
        evidence=f"{type(cause or error).__name__}: {lines[0] if lines else 'no details'}",
        next_step="Look at the server's log, which holds the details.",
    )
