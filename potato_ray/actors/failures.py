"""Failures around the controller: which of them pass by themselves, and which error of ours tells of them."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from typing import Any

from potato_ray.errors import PotatoRayError, ProjectUnwritable, RunFailed
from potato_ray.registry.connection import in_words

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


def passes_by_itself(error: Exception) -> bool:
    """Whether a write can be tried again: another program locks the registry, or its disk takes nothing."""
    told = in_words(error) if isinstance(error, sqlite3.OperationalError) else error
    return isinstance(told, ProjectUnwritable) or getattr(told, "code", "") == "registry_locked"


def unexpected(what: str) -> PotatoRayError:
    """An error for what nobody foresaw; the log holds its details."""
    return PotatoRayError(
        f"{what} because of an unexpected error.",
        code="backend_failed",
        next_step="Look at the server's log, which holds the details.",
    )
