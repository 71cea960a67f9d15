"""One run on a host that is reached by ssh, from the login to the last file that is cleared up there.

    have an agent at work ─▶ follow what it sends home ─▶ copy the model ─▶ clear up ─▶ log out

All that takes its time is told in the step line, and hears a cancel.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from potato_ray.backends.accompanied import Accompanied, Stopped, Talk
from potato_ray.backends.agent_following import AgentFollowing
from potato_ray.backends.artifact_copy import Copied, CopyFailed
from potato_ray.backends.artifact_list import MB
from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.endings import Event
from potato_ray.backends.host_agent import HostAgent
from potato_ray.backends.host_minder import HostMinder
from potato_ray.errors import Cancelled, PotatoRayError
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.ssh import SshFailed

logger = logging.getLogger(__name__)
T = TypeVar("T")

TRIES: Final = 5
RETRY_S: Final = 2.0
MOST_NAMED: Final = 20
"""Files that are named in the log, of those that stay on the host."""


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
        try:
            outcome = self._worked()
            return outcome if outcome.status == "stale" else self._left_behind(outcome)
        except Stopped as stopped:
            if stopped.directive.stale:
                return Outcome("stale")
            return self._left_behind(Outcome("cancelled"))
        finally:
            self._agent.close()

    # --- the work -----------------------------------------------------------------------------------

    def _worked(self) -> Outcome:
        note = self._agent.note
        if note is not None and note.cleared and not self._mirror.result.exists():
            return _failed(_gone(self._agent.host))
        try:
            if not self._mirror.result.exists():
                self._agent.means.require_socket()
                self._accompanied(self._open)
        except PotatoRayError as failure:
            return _failed(failure)
        return self._followed()

    def _open(self, talk: Talk) -> None:
        """Have an agent at work; a host that has let us in once may not be there at this very moment."""
        was_there = self._agent.note is not None
        patience_s = self._settings.heartbeat_timeout_s
        ends_at: float | None = None
        while True:
            began = self._clock()
            try:
                return self._agent.open(talk)
            except SshFailed as failure:
                now = self._clock()
                was_there = was_there or self._agent.has_lost_connection
                if ends_at is None or now - began > patience_s:
                    ends_at = now + patience_s  # it is away for the first time, or was there for long
                if not was_there or now >= ends_at:
                    raise
                talk.step(f"{failure.message}; trying again")
            if talk.wait(RETRY_S):
                raise Cancelled("The run was cancelled.")

    def _followed(self) -> Outcome:
        talk = Talk()
        with HostMinder(self._agent, talk, self._mirror.result.exists, self._clock) as minder:
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

    # --- the end ------------------------------------------------------------------------------------

    def _left_behind(self, outcome: Outcome) -> Outcome:
        """The outcome, with the model at home and nothing left on the host, as far as that can be done."""
        keep = self._settings.keep_remote
        note = self._agent.note
        is_there = note is not None and not note.cleared
        if is_there and outcome.status in ("success", "cancelled") and self._mirror.result.exists():
            try:
                outcome, stays = self._accompanied(
                    lambda talk: self._copied(outcome, talk), hears_cancel=outcome.status == "success"
                )
            except Stopped as stopped:
                if stopped.directive.stale:
                    return Outcome("stale")
                stays = False
            keep = keep or stays
        try:
            self._accompanied(lambda talk: self._clear_up(outcome, keep, talk), hears_cancel=False)
        except Stopped as stopped:
            if stopped.directive.stale:
                return Outcome("stale")
        return outcome

    def _copied(self, outcome: Outcome, talk: Talk) -> tuple[Outcome, bool]:
        """The outcome, and whether files of the model stay on the host."""
        if not self._settings.fetch_artifacts:
            talk.log(f"the model stays on {self._agent.host}: {outcome.artifact_uri}")
            return outcome, True
        try:
            copied = self._copied_at_last(talk)
        except (PotatoRayError, OSError) as failure:
            talk.log(f"{failure} The model stays on the host: {outcome.artifact_uri}", "warning")
            return outcome, True
        self._name_what_stays(copied, talk)
        stays = bool(copied.left)
        return (outcome if stays else replace(outcome, artifact_uri="")), stays

    def _copied_at_last(self, talk: Talk) -> Copied:
        """The copy, after as many tries as it takes within reason; each goes on where the last one was."""
        return self._tried(lambda: self._agent.copy_artifacts(talk), TRIES, talk)

    def _tried(self, work: Callable[[], T], tries: int, talk: Talk) -> T:
        """What the work gives, over a connection that is made again where it was lost."""
        for left in reversed(range(tries)):
            try:
                if not self._agent.is_connected:
                    self._agent.connect(talk)
                return work()
            except (SshFailed, CopyFailed) as failure:
                again = isinstance(failure, SshFailed) or failure.code in ("copy_broke_off", "copy_damaged")
                if not left or not again or talk.wait(RETRY_S):
                    raise
                talk.step(f"{failure.message}; trying again")
        raise AssertionError("unreachable: the loop returns or raises")

    def _name_what_stays(self, copied: Copied, talk: Talk) -> None:
        host = self._agent.host
        for path, n_bytes in copied.left[:MOST_NAMED]:
            size = f"{n_bytes / MB:.0f} MB, more than max_artifact_mb"
            talk.log(f"{path} stays on {host}: {size} ({self._settings.max_artifact_mb:g})", "warning")
        if len(copied.left) > MOST_NAMED:
            talk.log(f"so do {len(copied.left) - MOST_NAMED} more files", "warning")
        for path, why in copied.skipped[:MOST_NAMED]:
            talk.log(f"{path} was not copied from {host}: it {why}", "warning")
        talk.log(f"{copied.n_files} files, {copied.n_bytes / MB:.1f} MB, were copied from {host}")

    def _clear_up(self, outcome: Outcome, keep: bool, talk: Talk) -> None:
        note = self._agent.note
        # Where the run has waited for the host in vain, its end does not wait for it any longer.
        tries = 1 if outcome.error_code in ("heartbeat_lost", "ssh_failed") else TRIES
        try:
            if note is not None and not note.cleared:
                self._tried(lambda: self._clear_there(outcome, keep, talk), tries, talk)
        except (PotatoRayError, OSError) as failure:
            talk.log(f"{self._agent.host} could not be cleared up: {failure}", "warning")
        finally:
            self._keep_log(outcome)

    def _clear_there(self, outcome: Outcome, keep: bool, talk: Talk) -> None:
        self._keep_log(outcome)  # before the one over there goes
        self._agent.clear_up(talk, keep=keep)

    def _keep_log(self, outcome: Outcome) -> None:
        """Have the agent's log here after a failure, or the end of it that was heard."""
        if outcome.status == "success" or self._mirror.agent_log.exists():
            return
        try:
            self._agent.fetch_log(self._mirror.agent_log)
        except OSError as failure:
            logger.warning("the agent's log cannot be kept in %s: %s", self._mirror.path, failure)


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
