"""One run on a host that is reached by ssh, from the login to the last file that is cleared up there.

    have an agent at work ─▶ follow what it sends home ─▶ copy the model ─▶ clear up ─▶ log out

All that takes its time is told in the step line, and hears a cancel.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from potato_ray.backends.accompanied import Accompanied, Stopped, Talk
from potato_ray.backends.agent_following import AgentFollowing
from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.endings import Event
from potato_ray.backends.host_agent import HostAgent
from potato_ray.backends.host_leaving import Leaving
from potato_ray.backends.host_minder import HostMinder
from potato_ray.backends.mirror_signs import Silence
from potato_ray.backends.remote_note import followed_here
from potato_ray.errors import Cancelled, PotatoRayError, ProjectUnwritable
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.ssh import SshFailed

T = TypeVar("T")

RETRY_S: Final = 2.0


class HostFollowing(AgentFollowing):
    """Follows the mirror, and what is said of the way to the host besides."""

    def __init__(self, job: Job, sink: EventSink, minder: HostMinder, talk: Talk, **how: object) -> None:
        super().__init__(job, sink, **how)  # type: ignore[arg-type] # as AgentFollowing takes them
        self._minder = minder
        self._talk = talk

    @property
    def next_seq(self) -> int:
        """The number of events that the sink has."""
        return self._next_seq

    def _notices(self) -> list[Event]:
        return [*self._talk.taken(), *super()._notices()]

    def _lost(self) -> Outcome:
        lost, trouble = super()._lost(), self._minder.trouble
        return replace(lost, evidence=f"{lost.evidence} {trouble}") if trouble else lost

    def _given_up(self) -> Outcome | None:
        gone = self._minder.gone
        if gone is not None and self._cancelled_at is None:
            return _failed(gone)
        return super()._given_up()


class SshRun:
    """One execution. `clock` is monotonic seconds."""

    def __init__(
        self,
        agent: HostAgent,
        job: Job,
        sink: EventSink,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._agent = agent
        self._settings = agent.settings
        self._job = job
        self._sink = sink
        self._clock = clock
        self._sleep = sleep
        self._mirror = MirrorFolder(job.folder)
        self._next_seq = job.first_seq

    def run(self) -> Outcome:
        """Bring the run to its end. What the sink raises passes through; the agent over there goes on."""
        with followed_here(self._job.folder), contextlib.closing(self._agent):
            try:
                outcome = self._worked()
            except Stopped as stopped:
                outcome = Outcome("stale" if stopped.directive.stale else "cancelled")
            return outcome if outcome.status == "stale" else self._left_behind(outcome)

    def cancelled(self) -> PotatoRayError | None:
        """Bring a run that nobody follows any more to its end; None, or why its host was not reached.

        The end is noted before anything else, so that the next run on this host clears up what stays there.
        """
        outcome = Outcome("cancelled")
        with followed_here(self._job.folder), contextlib.closing(self._agent):
            self._agent.noted.keep_outcome(outcome, keep=self._settings.keep_remote)
            try:
                self._accompanied(self._logged_in, hears_cancel=False)
            except PotatoRayError as failure:
                return failure
            self._left_behind(outcome)
            return None

    # --- the work -----------------------------------------------------------------------------------

    def _worked(self) -> Outcome:
        note = self._agent.noted.note
        if note is not None and note.outcome is not None:
            return Outcome(**note.outcome)  # whoever followed the run before us came as far as that
        if note is not None and note.cleared and not self._agent.is_told:
            return self._never_heard()
        try:
            if not self._agent.is_told:
                self._agent.means.require_socket()
                self._accompanied(self._open)
        except PotatoRayError as failure:
            # Another follower may have cleared up what we looked for; then the run's end is here.
            if not self._agent.is_told:
                return _failed(failure)
        return self._followed()

    def _never_heard(self) -> Outcome:
        directive = self._sink([], self._next_seq, ())
        if directive.stale or directive.cancel:
            return Outcome("stale" if directive.stale else "cancelled")
        return _failed(_gone(self._agent.host))

    def _logged_in(self, talk: Talk) -> None:
        talk.step(f"connecting to {self._agent.host}")
        self._agent.connect(talk)

    def _open(self, talk: Talk) -> None:
        """Have an agent at work, unless the run's end is here.

        A host that has let us in once may not be there at this very moment.
        """
        was_there = self._agent.noted.note is not None
        patience_s = self._settings.heartbeat_timeout_s
        ends_at: float | None = None
        progress = self._agent.progress
        while True:
            if self._agent.is_told:
                return
            try:
                self._agent.open(talk)
                return
            except OSError as failure:
                raise ProjectUnwritable.because(failure, "The server's files") from failure
            except SshFailed as failure:
                now = self._clock()
                was_there = was_there or self._agent.connection.was_lost
                if ends_at is None or self._agent.progress > progress:
                    ends_at, progress = now + patience_s, self._agent.progress
                if not was_there or now >= ends_at:
                    raise
                talk.step(f"{failure.message}; trying again")
            if talk.wait(RETRY_S):
                raise Cancelled("The run was cancelled.")

    def _followed(self) -> Outcome:
        talk = Talk()
        silence = Silence(self._mirror.heartbeat, self._clock)
        with HostMinder(
            self._agent, talk, lambda: self._agent.is_told, self._clock, silence.seconds
        ) as minder:
            following = HostFollowing(
                self._job,
                self._sink,
                minder,
                talk,
                name=self._agent.name,
                heartbeat_timeout_s=self._settings.heartbeat_timeout_s,
                clock=self._clock,
                sleep=self._sleep,
            )
            try:
                return following.run()
            finally:
                self._next_seq = following.next_seq

    def _accompanied(self, work: Callable[[Talk], T], *, hears_cancel: bool = True) -> T:
        return Accompanied(
            work,
            self._sink,
            self._next_seq,
            hears_cancel=hears_cancel,
            clock=self._clock,
            sleep=self._sleep,
        ).run()

    def _left_behind(self, outcome: Outcome) -> Outcome:
        return Leaving(self._agent, self._job, self._sink, self._next_seq, self._accompanied).from_here(
            outcome
        )


def _gone(host: str) -> PotatoRayError:
    return PotatoRayError(
        f"The run was cleared up on {host} before its end had come here.",
        code="backend_failed",
        next_step="Start the run again.",
    )


def _failed(failure: PotatoRayError) -> Outcome:
    if isinstance(failure, Cancelled):
        return Outcome("cancelled")
    return Outcome("error", failure.code, failure.message, failure.evidence, failure.next_step)
