"""The link to a live controller: waits while it comes up, repeats while it is restarted, never blocks.

`server.life` says how far the controller is; the routes send their commands through here.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, Protocol

from potato_ray.errors import Conflict, NotSent, PotatoRayError
from potato_ray.server.context import Phase, Unavailable
from potato_ray.starting import StartRequest

logger = logging.getLogger(__name__)

PATIENCE_S = 30.0
LOOK_EVERY_S = 0.05
COMMANDS_AT_ONCE = 32
ANSWER_WITHIN_S = 2.0
"""When the server stops; less than open requests get."""
LEAST_S = 1.0
"""What a command that is sent at the last moment gets all the same."""
LATE_S = 2.0
"""How much later than it should a call may end before nobody waits for it any more."""
REPEATED_WHEN_LOCKED = frozenset({"start", "cancel"})
"""What may be sent again after the registry was locked: one transaction each, of which nothing is left."""
REPEATED = frozenset({"start"})
"""What may be sent again after it may have been taken: a start by its key. A second cancel would be
answered that the run has already ended, a second withdrawal that there was nothing to take off."""


class Caller(Protocol):
    """What calls the controller: a Session. It may raise anything while Ray is gone."""

    def call(self, method: str, *args: Any, timeout_s: float = 30.0) -> Any: ...


class LiveLink:
    """A ControllerLink. Commands run in threads of their own, so that reading routes keep theirs."""

    def __init__(self, caller: Caller, patience_s: float = PATIENCE_S) -> None:
        self.trouble: PotatoRayError | None = None
        self._phase = Phase.STARTING
        self._changing = threading.Lock()
        self._answers_until = math.inf
        self._caller = caller
        self._patience_s = patience_s
        self._threads = ThreadPoolExecutor(COMMANDS_AT_ONCE, thread_name_prefix="command")

    @property
    def phase(self) -> Phase:
        return self._phase

    def enter(self, phase: Phase) -> None:
        """Say how far the controller is now; a server that stops stays so."""
        with self._changing:
            if self._phase is not Phase.STOPPING:
                self._phase = phase

    async def command(self, method: str, *args: Any) -> Any:
        """As ControllerLink has it: a start gets an idempotency key where it has none."""
        arguments = [_repeatable(argument) for argument in args]
        deadline = time.monotonic() + self._patience_s
        sent_to = ""
        while True:
            try:
                await self._ready(deadline)
                return await self._call(method, arguments, deadline)
            except Unavailable as gone:
                raise (_unanswered(sent_to) if sent_to else gone) from None
            except NotSent:
                pass
            except Conflict as conflict:
                if conflict.code == "registry_locked" and _may_wait(method, deadline):
                    await asyncio.sleep(LOOK_EVERY_S)
                    continue
                if conflict.code != "controller_restarting":
                    raise (_unanswered(sent_to) if sent_to else conflict) from None
                sent_to = "the controller"
            except PotatoRayError:
                raise
            except Exception as failure:
                # Ray fails in many ways when its processes are gone; else it is a fault of ours.
                if self.phase is Phase.READY and not _is_of_ray(failure):
                    raise
                logger.warning("the command '%s' met %s", method, type(failure).__name__)
                sent_to = "Ray"
            if sent_to and (method not in REPEATED or time.monotonic() >= deadline):
                raise _unanswered(sent_to)
            if time.monotonic() >= deadline:
                raise _unavailable("There is none at present.")
            await asyncio.sleep(LOOK_EVERY_S)

    async def _ready(self, deadline: float) -> None:
        while self.phase is not Phase.READY:
            if self.phase in (Phase.FAILED, Phase.STOPPING) or time.monotonic() >= deadline:
                raise self._absent()
            await asyncio.sleep(LOOK_EVERY_S)

    def _absent(self) -> Unavailable:
        """Why nothing can take a command, and what helps: a server that ends is not back in seconds."""
        if self.phase is Phase.STOPPING:
            return _unavailable("The server is stopping.", "Try again when it is up.")
        if self.trouble is not None:
            return _unavailable(self.trouble.message, self.trouble.next_step)
        return _unavailable(f"It is {self.phase}.")

    async def _call(self, method: str, arguments: list[Any], deadline: float) -> Any:
        def call() -> Any:
            left_s = max(LEAST_S, deadline - time.monotonic())
            return self._caller.call(method, *arguments, timeout_s=left_s)

        submitted = self._threads.submit(call)
        work = asyncio.wrap_future(submitted)
        work.add_done_callback(_look_at)
        while not work.done():
            now = time.monotonic()
            if now >= self._answers_until:
                raise _sent("The server is stopping; the command may have been taken.")
            if now >= deadline and submitted.cancel():
                raise _unavailable("It has too many commands to answer; this one was not sent.")
            if now >= deadline + LEAST_S + LATE_S:
                raise _sent("The command was sent, and not answered in time: it may have been taken.")
            await asyncio.wait({work}, timeout=LOOK_EVERY_S)
        if work.cancelled():
            raise self._absent()
        return work.result()

    def close(self) -> None:
        """Take no more commands; those in flight get ANSWER_WITHIN_S."""
        self.enter(Phase.STOPPING)
        self._answers_until = min(self._answers_until, time.monotonic() + ANSWER_WITHIN_S)
        self._threads.shutdown(wait=False, cancel_futures=True)


def _is_of_ray(failure: Exception) -> bool:
    """Whether Ray itself failed, which nobody may have noticed yet; what it only hands on is not its own."""
    if any(kind.__name__ == "RayTaskError" for kind in type(failure).__mro__):
        return False
    frames, traceback = [], failure.__traceback__
    while traceback is not None:
        frames.append(str(traceback.tb_frame.f_globals.get("__name__", "")))
        traceback = traceback.tb_next
    return any(name.partition(".")[0] == "ray" for name in frames)


def _may_wait(method: str, deadline: float) -> bool:
    """Whether a command that met a locked registry is sent again; each time it has waited there already."""
    return method in REPEATED_WHEN_LOCKED and time.monotonic() < deadline


def _look_at(work: asyncio.Future[Any]) -> None:
    """Nobody may wait any more for what it raises."""
    if not work.cancelled():
        work.exception()


def _repeatable(argument: Any) -> Any:
    if isinstance(argument, StartRequest) and not argument.idempotency_key:
        return replace(argument, idempotency_key=uuid.uuid4().hex)
    return argument


def _unavailable(evidence: str, next_step: str = "") -> Unavailable:
    return Unavailable(
        "The controller of the project cannot be reached at present.",
        evidence=evidence,
        next_step=next_step or f"Try again in {Unavailable.retry_after_s} seconds.",
    )


def _unanswered(sent_to: str) -> Unavailable:
    return _sent(f"The command was sent, and {sent_to} was restarting: it may have been taken.")


def _sent(evidence: str) -> Unavailable:
    return Unavailable(
        "The controller of the project has not answered the command.",
        code="controller_restarting",
        evidence=evidence,
        next_step="Look at the run or the list of runs, then repeat the command if it was not taken; "
        "a start with the same Idempotency-Key is made once.",
    )
