"""Checking a backend without keeping anybody waiting: in a thread of its own, with a deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from potato_ray.backends.base import Check, CheckReport
from potato_ray.server.background import in_background

DEADLINE_S = 90.0


class BackendChecks:
    """The checks under way, one at most for each backend: whoever asks meanwhile gets its answer too."""

    def __init__(self, deadline_s: float = DEADLINE_S) -> None:
        self.deadline_s = deadline_s
        self._running: dict[str, asyncio.Future[CheckReport]] = {}

    async def check(self, name: str, check: Callable[[], CheckReport], type: str) -> CheckReport:  # noqa: A002
        """The report of `check`, or one that says that it took longer than `deadline_s`.

        Raises what `check` raises.
        """
        future = self._running.get(name)
        if future is None or future.done():
            future = self._running[name] = in_background(check, "backend-check")
        try:
            return await asyncio.wait_for(asyncio.shield(future), self.deadline_s)
        except TimeoutError:
            return _too_long(name, type, self.deadline_s)


def _too_long(name: str, type: str, deadline_s: float) -> CheckReport:  # noqa: A002 - the report's own name
    message = f"The check of {name} has not ended within {deadline_s:.0f} s"
    check = Check(
        "deadline", ok=False, message=message, next_step="Look whether its host answers, and retry."
    )
    return CheckReport(name, type, message, checks=(check,))
