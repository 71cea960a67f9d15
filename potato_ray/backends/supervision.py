"""Following one job folder on this machine to the end of its run.

    start (unless it runs already) ─▶ every 50 ms: new events ─▶ sink ─▶ directive
                                       cancel: a request in the folder · stale: let go
                                     ─▶ the end, explained from what the folder holds
    beside it: the lease is renewed, also while the sink waits

The launcher that works in the folder lives on when this process dies; another one follows it then.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from potato_ray.backends.base import Directive, EventSink, Job, Outcome
from potato_ray.backends.endings import Ending, Event, limits_of, outcome_of, read_if_whole, tail_of
from potato_ray.backends.lease import LeaseKeeper
from potato_ray.job.claim import LaunchFailed
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import ENDED, GONE, STARTING, Follower
from potato_ray.job.outcome import Explanation, stopped

logger = logging.getLogger(__name__)


POLL_S: Final = 0.05
TELL_EVERY_S: Final = 0.5
"""The sink is called at least once a second; this leaves room for a slow disk."""
START_TIMEOUT_S: Final = 30.0
SETTLE_S: Final = 0.5
"""How long exit.json may be late when the launcher is seen gone."""
AFTER_GRACE_S: Final = 10.0


class Supervision:
    """One execution of `LocalBackend.execute`. `clock` is monotonic seconds."""

    def __init__(
        self,
        job: Job,
        sink: EventSink,
        *,
        start: Callable[[Path], object],
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.folder = JobFolder(job.folder)
        self.limits = limits_of(self.folder)
        self._job = job
        self._sink = sink
        self._start = start
        self._clock = clock
        self._sleep = sleep
        self._follower = Follower(self.folder, first_seq=job.first_seq)
        self._next_seq = job.first_seq
        self._ending = Ending()
        self._told_at = float("-inf")
        self._cancelled_at: float | None = None
        self._grace_s = self.limits.grace_s
        self._said_ended = False

    def run(self) -> Outcome:
        """Follow to the end. What the sink raises passes through and leaves the worker alone."""
        if self.folder.process.exists():
            if self._follower.state() == GONE and not self._settled():
                self._follower.end_remains()
                return _interrupted()
        elif failure := self._launch():
            return failure
        with LeaseKeeper(self._follower, self._job.run_id):
            return self._follow(self._clock())

    def _launch(self) -> Outcome | None:
        """Start the launcher; the outcome when it cannot be started."""
        try:
            self._start(self.folder.path)
        except LaunchFailed as failure:
            if failure.code != "already_launched":
                return _not_started(failure)
            # Whoever followed this run before has started it a moment ago.
        return None

    def _follow(self, began_at: float) -> Outcome:
        while True:
            # The state first: what was written before it was read is then among the events.
            state = self._follower.state()
            events = self._follower.poll()
            directive = self._tell(events, self._ended_note())
            if directive is not None and directive.stale:
                return Outcome("stale")
            if directive is not None and directive.cancel:
                self._request_cancel(directive.grace_s)
            if events:
                continue
            if state in (ENDED, GONE):
                return self._end(state)
            if self._out_of_patience(state, began_at):
                return self._given_up()
            self._sleep(POLL_S)

    def _tell(self, events: list[dict[str, Any]], notes: tuple[Event, ...]) -> Directive | None:
        """Send what there is; None when there was nothing and it is not yet time to ask again."""
        now = self._clock()
        if not events and not notes and now - self._told_at < TELL_EVERY_S:
            return None
        self._ending.hear(events)
        directive = self._sink(events, self._next_seq, notes)
        self._next_seq += len(events)
        self._told_at = self._clock()
        return directive

    def _request_cancel(self, grace_s: float) -> None:
        """Ask the launcher to stop the worker, again and again until the request is on disk."""
        if self._cancelled_at is None:
            self._cancelled_at = self._clock()
            self._grace_s = grace_s
        try:
            self.folder.request_cancel("cancelled", grace_s)
        except OSError as error:
            logger.warning("run %s: its cancel was not written: %s", self._job.run_id, error)

    def _ended_note(self) -> tuple[Event, ...]:
        """The note that the run is over while its process is still being stopped, once."""
        over = None if self._said_ended else self._over_already()
        if over is None:
            return ()
        self._said_ended = True
        end = read_if_whole(self.folder.exit) or {}
        known = {"peak_rss_mb": float(end["peak_rss_mb"])} if end.get("peak_rss_mb") else {}
        return (
            {
                "kind": "ended",
                "error_code": over.error_code or over.status,
                "message": over.message,
                "evidence": over.evidence,
                "next_step": over.next_step,
                **known,
            },
        )

    def _over_already(self) -> Explanation | None:
        stopping = read_if_whole(self.folder.stopping) or {}
        if stopping.get("reason") in ("wall_clock", "out_of_memory"):
            return stopped(stopping["reason"], str(stopping.get("detail", "")), self.limits)
        return stopped("cancelled") if self._cancelled_for() >= self._grace_s else None

    def _cancelled_for(self) -> float:
        return float("-inf") if self._cancelled_at is None else self._clock() - self._cancelled_at

    def _out_of_patience(self, state: str, began_at: float) -> bool:
        if self._cancelled_for() >= self._grace_s + AFTER_GRACE_S or not self.folder.path.exists():
            return True
        return state == STARTING and self._clock() - began_at >= START_TIMEOUT_S

    def _given_up(self) -> Outcome:
        if self._cancelled_at is not None:
            return Outcome("cancelled")
        return Outcome(
            "error",
            error_code="backend_failed",
            message=f"No worker started in the run's job folder within {START_TIMEOUT_S:.0f} s."
            if self.folder.path.exists()
            else "The run's job folder was removed while the run was under way.",
            evidence=tail_of(self.folder.launcher_log),
            next_step="Look at the machine's load and disk, then start the run again.",
        )

    def _settled(self) -> bool:
        """Whether exit.json is there, after a moment: a launcher writes it as its last act."""
        deadline = self._clock() + SETTLE_S
        while not self.folder.exit.exists():
            if self._clock() >= deadline:
                return False
            self._sleep(POLL_S)
        return True

    def _end(self, state: str) -> Outcome:
        if state == GONE and not self._settled():
            self._follower.end_remains()
        if self._ending.is_silent and self._job.first_seq:
            # The end was already sent by whoever followed this run before.
            self._ending.hear_all(Follower(self.folder))
        end = self.folder.read_exit()
        told = tail_of(self.folder.stderr) if end is not None else self._remains()
        return outcome_of(end, self._ending, told, self.limits)

    def _remains(self) -> str:
        """What can be said of a launcher that is gone without exit.json."""
        processes = self.folder.read_processes()
        who = f"Its process {processes.launcher.pid} on {processes.launcher.host}" if processes else "It"
        return f"{who} is gone, and exit.json was not written.\n{tail_of(self.folder.stderr)}".rstrip()


def _interrupted() -> Outcome:
    return Outcome(
        "interrupted",
        message="The run's worker was gone when the server came back, and left no end.",
        evidence="No launcher works in the run's folder, and exit.json was not written.",
        next_step="Start the run again.",
    )


def _not_started(failure: LaunchFailed) -> Outcome:
    return Outcome(
        "error",
        error_code="bad_spec" if failure.code == "bad_spec" else "backend_failed",
        message=failure.message,
        next_step=failure.next_step,
    )
