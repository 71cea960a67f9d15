"""Places on other machines, looked for beside the queue: a host that hangs holds up no other backend.

admit ── look(run) ─▶ None, the look goes on   ─▶ … ─▶ wake ─▶ admit ── look(run) ─▶ its placement
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Set
from dataclasses import dataclass

from potato_ray.backends.base import Backend, Placement, Refusal

FRESH_S = 10.0
"""How long an answer counts; what is free on a host changes."""


@dataclass(frozen=True)
class _Look:
    run_id: str
    taken: frozenset[str]
    answer: asyncio.Future[Placement | Refusal]
    ended_at: list[float]

    def answers(self, run_id: str, taken: Set[str], now: float) -> bool:
        """Whether it is still an answer for this run: a refusal is none once a card was given back."""
        if self.run_id != run_id or (self.ended_at and now - self.ended_at[0] >= FRESH_S):
            return False
        refused = self.answer.exception() is None and isinstance(self.answer.result(), Refusal)
        return not refused or taken >= self.taken


class Placing:
    """The looks under way, one at most for each backend. `wake` is called when one has ended."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._looks: dict[str, _Look] = {}

    def look(self, run_id: str, backend: Backend, taken: Set[str]) -> Placement | Refusal | None:
        """The place for a run that wants a GPU, None while it is being looked for; another call asks again.

        Raises what `place` raises. Only the oldest run of a backend may ask, so `taken` holds meanwhile.
        """
        name, now = backend.name, asyncio.get_running_loop().time()
        look = self._looks.get(name)
        if look is not None and not look.answer.done():
            return None
        if look is not None:
            del self._looks[name]
            if look.answers(run_id, taken, now):
                return look.answer.result()
        self._begin(run_id, backend, taken)
        return None

    def _begin(self, run_id: str, backend: Backend, taken: Set[str]) -> None:
        loop = asyncio.get_running_loop()
        ended_at: list[float] = []
        answer = asyncio.ensure_future(asyncio.to_thread(backend.place, taken, uses_gpu=True))

        def ended(done: asyncio.Future[Placement | Refusal]) -> None:
            ended_at.append(loop.time())
            if not done.cancelled():
                done.exception()  # it is raised where it is asked for, if it still is
                self._wake()

        answer.add_done_callback(ended)
        self._looks[backend.name] = _Look(run_id, frozenset(taken), answer, ended_at)
