"""Following a run that an agent has in hand, by the mirror of its job folder on the server.

    events.jsonl, notes.jsonl ─▶ sink ─▶ directive     (the routes write them, as the agent sends them)
    heartbeat: touched at each good request of the agent; untouched for too long -> the run is lost
    cancel.json: the request to stop, which the agent gets with its next answer
    result.json: the end

The agent goes on without us, and we without it for a while; whoever follows next finds all in the folder.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.endings import Event, outcome_of
from potato_ray.backends.following import Following
from potato_ray.backends.mirror_notes import NoteReader
from potato_ray.backends.mirror_signs import Silence, Stillness, Work
from potato_ray.job.folder import Exit
from potato_ray.job.outcome import stopped
from potato_ray.mirror.folder import MirrorFolder

POLL_S: Final = 0.1
LATE_SHARE: Final = 0.25
"""Of heartbeat_timeout_s: after so much silence people are told that the agent is late."""
LATE_EVERY_S: Final = 10.0
AFTER_LIMIT_S: Final = 30.0
"""The launcher over there ends a run at its limits; how long its word may take to come home."""
IDLE_S: Final = 3600.0
"""How long an agent without a worker may report and do nothing else."""


class AgentFollowing(Following[MirrorFolder, dict[str, Any] | None]):
    """One execution where an agent fills the mirror; `name` is that of the backend."""

    def __init__(
        self,
        job: Job,
        sink: EventSink,
        *,
        name: str,
        heartbeat_timeout_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(MirrorFolder(job.folder), job, sink, poll_s=POLL_S, clock=clock, sleep=sleep)
        self._name = name
        self._timeout_s = heartbeat_timeout_s
        self._notes = NoteReader(self.folder)
        self._silence = Silence(self.folder.heartbeat, clock)
        self._stillness = Stillness(self.folder, clock)
        self._work = Work(self.folder, clock, wall_clock)
        self._may_be_late = True  # whoever followed the run before may have said so last
        self._late_at = float("-inf")

    def run(self) -> Outcome:
        """Follow to the end. What the sink raises passes through; the agent goes on."""
        return self._follow()

    def _look(self) -> dict[str, Any] | None:
        """result.json, once it is there."""
        try:
            return self.folder.read_end(self._job.attempt)
        except OSError:
            return None

    def _notices(self) -> list[Event]:
        return [*self._notes.poll(), *self._lateness()]

    def _passed_on(self) -> None:
        self._notes.keep_place()

    def _outcome(self, result: dict[str, Any] | None) -> Outcome | None:
        return self._end(result) if result is not None else self._given_up()

    def _lateness(self) -> list[Event]:
        """How long the agent has been silent, at intervals, and once that it is heard again."""
        silent_s = self._silence.seconds()
        if silent_s >= LATE_SHARE * self._timeout_s:
            return self._late(silent_s)
        if not self._may_be_late or not self._silence.was_broken:
            return []
        self._may_be_late, self._late_at = False, float("-inf")
        return [{"kind": "heard", "message": f"The agent on {self._name} is heard again."}]

    def _late(self, silent_s: float) -> list[Event]:
        self._may_be_late = True
        if self._clock() - self._late_at < LATE_EVERY_S:
            return []
        self._late_at = self._clock()
        word = (
            f"no word from the agent on {self._name} for {silent_s:.0f} s; lost after {self._timeout_s:.0f} s"
        )
        return [{"kind": "late", "step": word}]

    def _given_up(self) -> Outcome | None:
        """The outcome where there is no use in waiting on: cancelled, removed, lost, over its limit, idle."""
        removed = not self.folder.path.exists()
        if self._cancelled_at is not None and (removed or self._cancelled_for() >= self._grace_s):
            return Outcome("cancelled")
        if removed:
            return _removed()
        if self._silence.seconds() >= self._timeout_s:
            return self._lost()
        return self._over_limit() or self._idle()

    def _over_limit(self) -> Outcome | None:
        most_s = self.limits.max_wall_s
        worked_s = self._work.seconds()
        if not most_s or worked_s < most_s + self._grace_s + AFTER_LIMIT_S or not self.folder.says_working():
            return None
        told = stopped("wall_clock", f"It has worked for {worked_s:.0f} s.", self.limits)
        return Outcome(told.status, told.error_code, told.message, told.evidence, told.next_step)

    def _idle(self) -> Outcome | None:
        """An agent that reports, and does nothing that would show: not even a bundle comes nearer."""
        if self._stillness.seconds() < IDLE_S:
            return None
        return Outcome(
            "error" if self._has_started() else "unstarted",
            error_code="backend_failed",
            message=f"The agent on {self._name} has done nothing for the run for {IDLE_S / 60:.0f} minutes.",
            evidence="It has reported all the time, with no worker, no event, no note and no prediction.",
            next_step="Look at the agent's output on that machine, start it anew, then start the run again.",
        )

    def _has_started(self) -> bool:
        return self._next_seq > 0 or self.folder.started.exists()

    def _lost(self) -> Outcome:
        # The agent is told that the run is over, or another's, as soon as it comes back.
        return Outcome(
            "error" if self._has_started() else "unstarted",
            error_code="heartbeat_lost",
            message=f"No word from the agent on {self._name} for {self._timeout_s:.0f} seconds.",
            evidence=f"It had sent {self._next_seq} events.",
            next_step="Look whether the machine and its agent are up and reach the server, then start again.",
        )

    def _end(self, result: dict[str, Any]) -> Outcome:
        uri = str(result.get("artifact_uri") or "")
        failure = result.get("failure")
        if isinstance(failure, dict):
            return Outcome(
                "error",
                error_code=str(failure.get("code") or "backend_failed"),
                message=str(failure.get("message") or "The agent could not run the job."),
                evidence=str(result.get("stderr_tail") or ""),
                next_step=str(failure.get("next_step") or "Look at agent.log in the run's folder."),
                artifact_uri=uri,
            )
        end = result.get("exit")
        known = Exit(**end) if isinstance(end, dict) else None
        outcome = outcome_of(known, self._heard_ending(), str(result.get("stderr_tail") or ""), self.limits)
        return replace(outcome, artifact_uri=uri)


def _removed() -> Outcome:
    # The agent is told with its next request that nobody has the run in hand, and ends the worker.
    return Outcome(
        "error",
        error_code="backend_failed",
        message="The run's folder was removed while an agent had the run in hand.",
        evidence="What the agent sends has no place any more.",
        next_step="Leave the runs' folders to this program, and start the run again.",
    )
