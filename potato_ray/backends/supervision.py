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
from typing import Final

from potato_ray.backends.base import EventSink, Job, Outcome
from potato_ray.backends.endings import Event, outcome_of, read_if_whole, tail_of
from potato_ray.backends.following import Following
from potato_ray.job.claim import LaunchFailed
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import ENDED, GONE, STARTING
from potato_ray.job.lease_keeper import LeaseKeeper
from potato_ray.job.outcome import Explanation, stopped

logger = logging.getLogger(__name__)


POLL_S: Final = 0.05
START_TIMEOUT_S: Final = 30.0
SETTLE_S: Final = 0.5
"""How long exit.json may be late when the launcher is seen gone."""
AFTER_GRACE_S: Final = 10.0


class Supervision(Following[JobFolder, str]):
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
        super().__init__(JobFolder(job.folder), job, sink, poll_s=POLL_S, clock=clock, sleep=sleep)
        self._start = start
        self._began_at = clock()
        self._said_ended = False

    def run(self) -> Outcome:
        """Follow to the end. What the sink raises passes through and leaves the worker alone."""
        if self.folder.process.exists():
            if self._follower.state() == GONE and not self._settled():
                self._follower.end_remains()
                return _interrupted()
        elif failure := self._launch():
            return failure
        self._began_at = self._clock()
        with LeaseKeeper(self._follower, trouble=self._not_renewed):
            return self._follow()

    def _not_renewed(self, failure: OSError) -> None:
        logger.warning("run %s: its lease was not renewed: %s", self._job.run_id, failure)

    def _launch(self) -> Outcome | None:
        """Start the launcher; the outcome when it cannot be started."""
        try:
            self._start(self.folder.path)
        except LaunchFailed as failure:
            if failure.code != "already_launched":
                return _not_started(failure)
            # Whoever followed this run before has started it a moment ago.
        return None

    def _look(self) -> str:
        return self._follower.state()

    def _outcome(self, state: str) -> Outcome | None:
        if state in (ENDED, GONE):
            return self._end(state)
        return self._given_up() if self._out_of_patience(state) else None

    def _notices(self) -> tuple[Event, ...]:
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

    def _out_of_patience(self, state: str) -> bool:
        if self._cancelled_for() >= self._grace_s + AFTER_GRACE_S or not self.folder.path.exists():
            return True
        return state == STARTING and self._clock() - self._began_at >= START_TIMEOUT_S

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
        end = self.folder.read_exit()
        told = tail_of(self.folder.stderr) if end is not None else self._remains()
        return outcome_of(end, self._heard_ending(), told, self.limits)

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
