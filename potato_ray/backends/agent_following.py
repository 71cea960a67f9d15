"""Following a run that an agent has in hand, by the mirror of its job folder on the server.

    events.jsonl, notes.jsonl ─▶ sink ─▶ directive     (the routes write them, as the agent sends them)
    heartbeat: touched at each good request of the agent; untouched for too long -> the run is lost
    cancel.json: the request to stop, which the agent gets with its next answer
    result.json: the end

The agent goes on without us, and we without it for a while; whoever follows next finds all in the folder.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.endings import Event, outcome_of, read_if_whole
from potato_ray.backends.following import Following
from potato_ray.job.folder import Exit
from potato_ray.job.outcome import stopped
from potato_ray.mirror.folder import MirrorFolder

POLL_S: Final = 0.1
LATE_SHARE: Final = 0.25
"""Of heartbeat_timeout_s: after so much silence people are told that the agent is late."""
LATE_EVERY_S: Final = 10.0
AFTER_LIMIT_S: Final = 30.0
"""The launcher over there ends a run at its limits; how long its word may take to come home."""


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
    ) -> None:
        super().__init__(MirrorFolder(job.folder), job, sink, poll_s=POLL_S, clock=clock, sleep=sleep)
        self._name = name
        self._timeout_s = heartbeat_timeout_s
        self._notes = NoteReader(self.folder.notes, skip=job.first_seq > 0)
        self._silence = Silence(self.folder.heartbeat, clock)
        self._late_at = float("-inf")
        self._worked_since: float | None = None

    def run(self) -> Outcome:
        """Follow to the end. What the sink raises passes through; the agent goes on."""
        return self._follow()

    def _look(self) -> dict[str, Any] | None:
        """result.json, once it is there."""
        return read_if_whole(self.folder.result)

    def _notices(self) -> list[Event]:
        return [*self._notes.poll(), *self._lateness()]

    def _outcome(self, result: dict[str, Any] | None) -> Outcome | None:
        if self._worked_since is None and self._next_seq > self._job.first_seq:
            self._worked_since = self._clock()
        return self._end(result) if result is not None else self._given_up()

    def _lateness(self) -> list[Event]:
        """A step line that says how long the agent has been silent, and one when it is heard again."""
        silent_s = self._silence.seconds()
        if silent_s < LATE_SHARE * self._timeout_s:
            if self._late_at == float("-inf"):
                return []
            self._late_at = float("-inf")
            return [{"kind": "step", "step": f"the agent on {self._name} is heard again"}]
        if self._clock() - self._late_at < LATE_EVERY_S:
            return []
        self._late_at = self._clock()
        word = (
            f"no word from the agent on {self._name} for {silent_s:.0f} s; lost after {self._timeout_s:.0f} s"
        )
        return [{"kind": "step", "step": word}]

    def _given_up(self) -> Outcome | None:
        """The outcome where there is no use in waiting on: cancelled, removed, lost, or over its limit."""
        now = self._clock()
        removed = not self.folder.path.exists()
        if self._cancelled_at is not None and (removed or self._cancelled_for() >= self._grace_s):
            return Outcome("cancelled")
        if removed:
            return _removed()
        if self._silence.seconds() >= self._timeout_s:
            return self._lost()
        most_s = self.limits.max_wall_s
        if most_s and self._worked_since is not None:
            worked_s = now - self._worked_since
            if worked_s >= most_s + self._grace_s + AFTER_LIMIT_S:
                told = stopped("wall_clock", f"It has worked for {worked_s:.0f} s.", self.limits)
                return Outcome(told.status, told.error_code, told.message, told.evidence, told.next_step)
        return None

    def _lost(self) -> Outcome:
        # The agent is told that the run is over, or another's, as soon as it comes back.
        has_started = self._next_seq > 0 or self.folder.started.exists()
        return Outcome(
            "error" if has_started else "unstarted",
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


class Silence:
    """How long a file has not been touched, by our own clock: those of two machines need not agree.

    What happened before we looked counts for nothing, so our own absence is not the agent's silence.
    """

    def __init__(self, path: Path, clock: Callable[[], float]) -> None:
        self._path = path
        self._clock = clock
        self._touched = self._stamp()
        self._since = clock()

    def seconds(self) -> float:
        """Seconds since the last touch that was seen."""
        touched = self._stamp()
        if touched != self._touched:
            self._touched, self._since = touched, self._clock()
        return self._clock() - self._since

    def _stamp(self) -> int | None:
        try:
            return self._path.stat().st_mtime_ns
        except OSError:
            return None


class NoteReader:
    """The notes that the agent has sent, one a line; `skip`: those that are there already are known."""

    def __init__(self, path: Path, skip: bool) -> None:
        self._path = path
        self._offset = self._size() if skip else 0

    def poll(self) -> list[Event]:
        """The next notes; a last line without its end waits."""
        if self._size() <= self._offset:
            return []
        with self._path.open("rb") as handle:
            handle.seek(self._offset)
            text = handle.read(1 << 20)
        whole = text[: text.rfind(b"\n") + 1]
        self._offset += len(whole)
        return [note for line in whole.splitlines() for note in _note(line)]

    def _size(self) -> int:
        try:
            return self._path.stat().st_size
        except OSError:
            return 0


def _note(line: bytes) -> list[Event]:
    try:
        note = json.loads(line)
    except ValueError:
        return []
    return [note] if isinstance(note, dict) and note.get("kind") in ("step", "log") else []
