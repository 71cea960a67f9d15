"""Leaving a host behind a run that is over: what it made comes home, and nothing of it stays there.

    the end told, where it is known ─▶ a cancelled job stopped ─▶ model copied ─▶ agent's log ─▶ cleared up

Behind a run that was cancelled or lost its end is shown first; its GPU stays reserved until all is done. Of
several that follow a run, as for a while after a restart, the first does all that; the next finds its note.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Final, Protocol, TypeVar

from potato_ray.backends.accompanied import Stopped, Talk
from potato_ray.backends.artifact_copy import Copied, CopyFailed
from potato_ray.backends.artifact_list import MB
from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.host_agent import HostAgent
from potato_ray.backends.leaving_turn import LeavingTurn
from potato_ray.backends.remote_note import uncleared
from potato_ray.errors import PotatoRayError
from potato_ray.mirror.folder import MirrorFolder
from potato_ray.ssh import SshFailed, SshTimeout

logger = logging.getLogger(__name__)
T = TypeVar("T")

TRIES: Final = 5
RETRY_S: Final = 2.0
_FAILURES: Final = ("error", "unstarted")
MOST_NAMED: Final = 20
"""Files that are named in the log, of those that stay on the host."""


class Accompany(Protocol):
    """Does work in a thread while people are told of it; see accompanied.Accompanied."""

    def __call__(self, work: Callable[[Talk], T], *, hears_cancel: bool = True) -> T: ...


class Leaving:
    """One run's end on its host. `next_seq` is the number of events that the sink has."""

    def __init__(
        self, agent: HostAgent, job: Job, sink: EventSink, next_seq: int, accompanied: Accompany
    ) -> None:
        self._agent = agent
        self._settings = agent.settings
        self._job = job
        self._sink = sink
        self._next_seq = next_seq
        self._accompanied = accompanied
        self._mirror = MirrorFolder(job.folder)
        self._grace_s = 0.0
        self._has_log = False

    def from_here(self, outcome: Outcome) -> Outcome:
        """The outcome, with the model at home and nothing left on the host, as far as that can be done.

        It is the one that another follower has noted, where that is of the same kind, or ours is a failure. A
        model that went with the failure of another one is not named, and its loss is logged.
        """
        try:
            with LeavingTurn(self._job.folder) as turn:
                if not turn.take():
                    self._accompanied(turn.wait, hears_cancel=False)
                return self._left(outcome)
        except Stopped:  # by another one that has the run: a cancel does not stop this
            return Outcome("stale")

    def _left(self, outcome: Outcome) -> Outcome:
        noted = self._agent.noted.read_outcome()
        if noted is not None and outcome.status in (*_FAILURES, noted.status):
            outcome = noted
        keep = self._settings.keep_remote or (outcome is noted and self._agent.noted.keeps_folder)
        if _is_told_first(outcome) and not self._told(outcome, keep):
            return Outcome("stale")
        if self._agent.noted.has_lost_model:
            outcome = self._without_model(outcome)
        elif outcome is not noted or outcome.status != "success":  # which is noted when the model was copied
            outcome, stays = self._brought_home(outcome)
            keep = keep or stays
        self._agent.noted.keep_outcome(outcome, keep=keep)
        self._accompanied(lambda talk: self._clear_up(outcome, keep, talk), hears_cancel=False)
        return outcome

    def _without_model(self, outcome: Outcome) -> Outcome:
        if outcome.status != "success" or not outcome.artifact_uri:
            return outcome
        what = f"the model is gone: another process that followed the run cleared up on {self._agent.host}"
        self._sink([], self._next_seq, [{"kind": "log", "level": "warning", "message": what}])
        return replace(outcome, artifact_uri="")

    def _told(self, outcome: Outcome, keep: bool) -> bool:
        """Tell the end while the host is still at it; False where nobody of ours has the run any more."""
        self._agent.keep_words(self._mirror.agent_log)
        note = {
            "kind": "ended",
            "error_code": outcome.error_code or outcome.status,
            "message": outcome.message,
            "evidence": outcome.evidence,
            "next_step": outcome.next_step,
        }
        directive = self._sink([], self._next_seq, [note])
        if directive.stale:
            return False
        self._grace_s = directive.grace_s
        self._agent.noted.keep_outcome(outcome, keep=keep)
        return True

    def _brought_home(self, outcome: Outcome) -> tuple[Outcome, bool]:
        """The outcome with its model copied, and whether files of it stay on the host."""
        is_cancelled = outcome.status == "cancelled"
        if not self._agent.noted.is_uncleared or not (is_cancelled or outcome.status == "success"):
            return outcome, False
        # A success has been told; of what was cancelled the worker may be at work.
        unheard = is_cancelled and not self._agent.is_told
        if unheard and not self._accompanied(self._stopped_there, hears_cancel=False):
            return outcome, False
        try:
            return self._accompanied(lambda talk: self._copied(outcome, talk), hears_cancel=not is_cancelled)
        except Stopped as stopped:
            if stopped.directive.stale:
                raise
            return outcome, False

    def _stopped_there(self, talk: Talk) -> bool:
        """See a cancelled job end, of whose end no word came; whether it has left files of a model."""
        try:
            return self._tried(lambda: self._agent.stop_job(self._grace_s, talk), TRIES, talk)
        except (PotatoRayError, OSError) as failure:
            talk.log(f"{self._agent.host} did not say how the job ended there: {failure}", "warning")
            return False

    def _connect(self, talk: Talk) -> None:
        if self._agent.is_connected:
            return
        try:
            self._agent.connect(talk)
        except SshTimeout as late:  # a login may come to be; what is asked of one that stands is not repeated
            raise SshFailed(
                late.message, code=late.code, evidence=late.evidence, next_step=late.next_step
            ) from late

    def _copied(self, outcome: Outcome, talk: Talk) -> tuple[Outcome, bool]:
        """The outcome, and whether files of the model stay on the host."""
        if not self._settings.fetch_artifacts:
            talk.log(f"the model stays on {self._agent.host}: {self._where(outcome)}")
            return outcome, True
        try:
            copied = self._copied_at_last(talk)
        except (PotatoRayError, OSError) as failure:
            talk.log(f"{failure} The model stays on the host: {self._where(outcome)}", "warning")
            return outcome, True
        self._name_what_stays(copied, talk)
        stays = bool(copied.left)
        return (outcome if stays else replace(outcome, artifact_uri="")), stays

    def _where(self, outcome: Outcome) -> str:
        """Host and folder of the model; of a run whose agent could not say so, of the run."""
        return outcome.artifact_uri or f"{self._agent.host}:{self._agent.noted.remote_folder}"

    def _copied_at_last(self, talk: Talk) -> Copied:
        """The copy, after as many tries as it takes within reason; each goes on where the last one was."""
        return self._tried(lambda: self._agent.copy_artifacts(talk), TRIES, talk)

    def _tried(self, work: Callable[[], T], tries: int, talk: Talk) -> T:
        """What the work gives, over a connection that is made again where it was lost."""
        for left in reversed(range(tries)):
            try:
                self._connect(talk)
                return work()
            except (SshFailed, CopyFailed) as failure:
                if not left or not _may_pass(failure) or talk.wait(RETRY_S):
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
        # Where the run has waited for the host in vain, its end does not wait for it any longer.
        tries = 1 if outcome.error_code in ("heartbeat_lost", "ssh_failed") else TRIES
        try:
            if self._agent.noted.is_uncleared:
                self._tried(lambda: self._clear_there(outcome, keep, talk), tries, talk)
        except (PotatoRayError, OSError) as failure:
            talk.log(f"{self._agent.host} could not be cleared up: {failure}", "warning")
        finally:
            self._keep_log(outcome)

    def _clear_there(self, outcome: Outcome, keep: bool, talk: Talk) -> None:
        self._keep_log(outcome)  # before the one over there goes
        self._agent.clear_up(talk, keep=keep)
        self._clear_others(talk)

    def _clear_others(self, talk: Talk) -> None:
        """Clear up behind runs that ended while this host was away; what fails is tried by the next run."""
        for folder, note in uncleared(self._job.folder.parent, self._agent.host, but=self._job.folder.name):
            try:
                self._agent.clear_up_behind(folder, note, talk)
            except (PotatoRayError, OSError) as failure:
                logger.warning("run %s: it could not be cleared up behind: %s", folder.name, failure)
                return

    def _keep_log(self, outcome: Outcome) -> None:
        """Have the agent's log here after a failure: that of the host, or the end of it that was heard."""
        log = self._mirror.agent_log
        if outcome.status == "success" or self._has_log or (self._mirror.result.exists() and log.exists()):
            return
        try:
            self._has_log = self._agent.fetch_log(log)
        except OSError as failure:
            logger.warning("the agent's log cannot be kept in %s: %s", self._mirror.path, failure)


def _is_told_first(outcome: Outcome) -> bool:
    return outcome.status == "cancelled" or outcome.error_code == "heartbeat_lost"


def _may_pass(failure: SshFailed | CopyFailed) -> bool:
    """Whether another try may do better. One that came to nothing within its time was long enough."""
    if isinstance(failure, CopyFailed):
        return failure.code in ("copy_broke_off", "copy_damaged")
    return not isinstance(failure, SshTimeout)
