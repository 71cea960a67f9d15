"""Long polls of agents: one watcher for all of them, so that those who wait cost next to nothing.

    registry ── watcher ── view ──┬── a run is on offer: the poll that waits longest claims it
     (one look for all)           └── the job of a poll's lease can be fetched: it is answered

A poll is a place in a row and a future. No poll looks at anything itself.

A token may be replaced while its bearer waits: with each look the watcher asks whose token is still good,
before anything is given out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from potato_ray.errors import PotatoRayError
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.watch import RegistryWatch
from potato_ray.run_lookup import run_folder
from potato_ray.server.agent_access import Admitted, Digests, Tokens, not_admitted
from potato_ray.server.agent_view import Claimed, View, Views
from potato_ray.server.context import Phase, ServerContext, Unavailable

logger = logging.getLogger(__name__)

POLL_S = 0.2
"""How often the registry is asked for changes."""
JOB_POLL_S = 0.05
"""How often is looked for a job that is being made."""
RETRY_S = 2.0
"""When a run that could not begin, for whatever reason, is asked for again."""
LINGER_S = 5.0
"""How long the watcher goes on without a poll."""
SHORTEST_S = 0.25
"""What a poll that wants to wait for nothing waits all the same, or it could never get anything."""

Job = dict[str, Any]


@dataclass(eq=False)
class Poll:
    """One agent that waits. `claimed` is the attempt that its lease has, once it has one.

    With `run_id` it waits for that run alone, which was given to it already, and for none on offer.
    `token_sha256` is that of the token by which it was let in.
    """

    backend: str
    lease_sha256: str
    agent: Mapping[str, Any]
    outcome: asyncio.Future[Job | None] = field(repr=False)
    claimed: Claimed | None = None
    run_id: str | None = None
    token_sha256: str = ""

    def fits(self, claimed: Claimed) -> bool:
        """Whether this agent may have that attempt."""
        return claimed.backend == self.backend and self.run_id in (None, claimed.run_id)

    def answer(self, job: Job | None) -> None:
        if not self.outcome.done():
            self.outcome.set_result(job)

    def refuse(self, error: Exception) -> None:
        if not self.outcome.done():
            self.outcome.set_exception(error)


@dataclass(frozen=True)
class _Seen:
    """A look: the view and whose tokens are good, None where nothing was committed; jobs that are there."""

    view: View | None
    tokens: Digests | None
    jobs: Mapping[Claimed, Job]


class Polls:
    """The long polls of one application, all on its event loop. `clock` is monotonic seconds.

    `tokens` are those of backends; without them a poll is as good as when it came in.
    """

    def __init__(
        self,
        context: ServerContext,
        clock: Callable[[], float] = time.monotonic,
        poll_s: float = POLL_S,
        tokens: Tokens | None = None,
    ) -> None:
        self._controller = context.controller
        self._clock = clock
        self._poll_s = poll_s
        self._tokens = tokens
        self._digests: Digests = {}
        self._watch = RegistryWatch(context.config.registry_path)
        self._views = Views(context.reader, lambda run_id: run_folder(context.config, run_id))
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="agents-watch")
        self._view = View()
        self._views_taken = 0
        self._looking = False
        self._waiting: dict[str, Poll] = {}
        self._given: dict[str, tuple[Claimed, int]] = {}
        self._giving: dict[str, asyncio.Task[None]] = {}
        self._not_before: dict[str, float] = {}
        self._unseen = False
        self._kick = asyncio.Event()
        self._watching: asyncio.Task[None] | None = None
        self._trouble = ""

    def __len__(self) -> int:
        return len(self._waiting)

    async def claim(
        self,
        backend: str,
        lease_sha256: str,
        agent: Mapping[str, Any],
        wait_s: float,
        gone: asyncio.Future[Any],
        run_id: str | None = None,
        token_sha256: str = "",
    ) -> Job | None:
        """The job of this lease, or of a run that is on offer; None after `wait_s`, or once `gone` is done.

        With `run_id` it is the job of that run, or none. A second poll with the same lease takes the place
        of the first. Raises Unavailable when the server stops, Rejected (401) once the token is replaced.
        """
        outcome: asyncio.Future[Job | None] = asyncio.get_running_loop().create_future()
        poll = Poll(backend, lease_sha256, agent, outcome, run_id=run_id, token_sha256=token_sha256)
        before = self._waiting.pop(lease_sha256, None)
        if before is not None:
            poll.claimed = before.claimed if before.claimed and poll.fits(before.claimed) else None
            before.answer(None)
        self._waiting[lease_sha256] = poll
        self._recall(poll)
        self._wake()
        try:
            await asyncio.wait(
                {poll.outcome, gone},
                timeout=max(SHORTEST_S, wait_s),
                return_when=asyncio.FIRST_COMPLETED,
            )
            return poll.outcome.result() if poll.outcome.done() else None
        finally:
            if self._waiting.get(lease_sha256) is poll:
                del self._waiting[lease_sha256]

    def has(self, lease_sha256: str, agent: Mapping[str, Any]) -> bool:
        """Whether this agent waits, with that lease."""
        poll = self._waiting.get(lease_sha256)
        return poll is not None and poll.agent.get("id") == agent.get("id")

    def close(self) -> None:
        """Answer every poll that the server stops. To be called on the event loop."""
        for poll in self._waiting.values():
            poll.refuse(Unavailable("The server is stopping.", next_step="Try again when it is up."))
        for task in self._giving.values():
            task.cancel()

    # Watching

    def _wake(self) -> None:
        self._kick.set()
        if self._watching is None or self._watching.done():
            self._watching = asyncio.create_task(self._keep_watching())

    async def _keep_watching(self) -> None:
        """Look as long as there are polls, and a little longer: an agent asks again at once."""
        alone_since = self._clock()
        fresh = True
        try:
            while self._waiting or self._giving or self._clock() - alone_since < LINGER_S:
                if self._waiting:
                    alone_since = self._clock()
                if self._controller.phase is Phase.STOPPING:
                    self.close()
                    break
                self._kick.clear()
                await self._looked(fresh)
                fresh = False
                self._give()
                await self._sleep()
            # At once, with no await in between: a poll that comes later has to begin another watcher.
            self._watching = None
        finally:
            # Also when the event loop ends under it: the file is let go whatever happens.
            self._thread.submit(self._watch.close)

    async def _sleep(self) -> None:
        makes = any(poll.claimed for poll in self._waiting.values())
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._kick.wait(), JOB_POLL_S if makes else self._poll_s)

    async def _looked(self, anyway: bool) -> None:
        """Look; trouble is logged once, and the next look tries again."""
        try:
            await self._look(anyway)
        except (PotatoRayError, sqlite3.Error, OSError) as error:
            if str(error) != self._trouble:
                self._trouble = str(error)
                logger.warning("the runs on offer could not be looked at, trying again: %s", error)
        else:
            self._trouble = ""

    async def _look(self, anyway: bool) -> None:
        loop = asyncio.get_running_loop()
        # Those that come during the look may bear a token that is newer than what it finds.
        here = list(self._waiting.values())
        wanted = {poll.claimed for poll in here if poll.claimed is not None}
        began, self._looking = self._views_taken, True
        try:
            seen = await loop.run_in_executor(self._thread, self._see, wanted, anyway)
        finally:
            self._looking = False
        if seen.tokens is not None:
            self._refuse_locked_out(here, seen.tokens)
        if seen.view is not None:
            self._take(seen.view, began)
        for poll in list(self._waiting.values()):
            if poll.claimed is not None and poll.claimed in seen.jobs:
                poll.answer(seen.jobs[poll.claimed])

    def _see(self, wanted: set[Claimed], anyway: bool) -> _Seen:
        """In the watcher's thread."""
        # Kept until all was seen: the watch tells of each change once.
        self._unseen = self._watch.changed() or anyway or self._unseen
        view = self._views.take() if self._unseen else None
        tokens = self._tokens.read() if self._unseen and self._tokens is not None else None
        self._unseen = False
        jobs: dict[Claimed, Job] = {}
        for claimed in wanted:
            folder = self._views.job_folder(claimed)
            job = None if folder is None else _read_job(folder, claimed.attempt)
            if job is not None:
                jobs[claimed] = job
        return _Seen(view, tokens, jobs)

    def _refuse_locked_out(self, polls: Iterable[Poll], digests: Digests) -> None:
        """Answer those whose token was replaced, and let nobody else in with it."""
        if self._tokens is not None and digests != self._digests:
            self._digests = digests
            self._tokens.forget()
        for poll in polls:
            if digests.get(poll.token_sha256) != Admitted(poll.backend):
                poll.refuse(not_admitted())

    def _take(self, view: View, began: int) -> None:
        """Keep the view with the number `began`. What was given out before it is in it, or is over."""
        if (view.offered, view.busy) != (self._view.offered, self._view.busy):
            self._not_before.clear()
        self._view = view
        self._views_taken += 1
        held = set(view.held.values())
        self._given = {
            lease: (claimed, since)
            for lease, (claimed, since) in self._given.items()
            if claimed in held or since > began
        }
        for poll in self._waiting.values():
            self._recall(poll)

    def _recall(self, poll: Poll) -> None:
        """What the lease of a poll has, if anything; nothing any more, when that run has ended."""
        given = self._given.get(poll.lease_sha256)
        claimed = given[0] if given is not None else self._view.held.get(poll.lease_sha256)
        poll.claimed = claimed if claimed is not None and poll.fits(claimed) else None

    # Giving out

    def _give(self) -> None:
        """Claim what is on offer, for one poll of a backend at a time."""
        if self._controller.phase is not Phase.READY:
            return
        for backend in self._view.offered:
            busy = backend in self._giving or self._clock() < self._not_before.get(backend, 0.0)
            poll = None if busy else self._first(backend)
            if poll is not None:
                self._giving[backend] = asyncio.create_task(self._claim_for(poll))

    def _first(self, backend: str) -> Poll | None:
        """The poll that waits longest for a job of a backend, and has none."""
        for poll in self._waiting.values():
            waits = poll.claimed is None and not poll.outcome.done()
            if poll.backend == backend and poll.run_id is None and waits:
                return poll
        return None

    async def _claim_for(self, poll: Poll) -> None:
        """A claim that is sent is carried through, also when its poll has ended: the lease has the run."""
        try:
            found = await self._controller.command("claim", poll.backend, poll.lease_sha256, poll.agent)
            if found is None:
                self._not_before[poll.backend] = self._clock() + RETRY_S
            else:
                self._give_to(poll, found)
        except Exception as error:  # noqa: BLE001 - whatever it is, the poll waits on
            self._not_before[poll.backend] = self._clock() + RETRY_S
            logger.warning("a run on offer to %s could not be given out: %s", poll.backend, error)
        finally:
            del self._giving[poll.backend]
            self._kick.set()

    def _give_to(self, poll: Poll, found: Mapping[str, Any]) -> None:
        claimed = Claimed(str(found["run_id"]), int(found["attempt"]), poll.backend)
        # A view that is being taken now may be from before.
        self._given[poll.lease_sha256] = (claimed, self._views_taken + int(self._looking))
        present = self._waiting.get(poll.lease_sha256)
        if present is not None and present.fits(claimed):
            present.claimed = claimed


def _read_job(folder: MirrorFolder, attempt: int) -> Job | None:
    """A job that cannot be read is looked for again; it must not keep the others from theirs."""
    try:
        return folder.read_job(attempt)
    except OSError as error:
        logger.warning("%s could not be read, trying again: %s", folder.job, error)
        return None
