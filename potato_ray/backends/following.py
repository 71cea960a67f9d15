"""Following a job folder: what all who do it have in common, whoever writes the folder.

every look: the end, if any ─▶ new events and notices ─▶ sink ─▶ directive
            a request to stop goes into the folder; stale lets go of it
"""

from __future__ import annotations

import logging
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, Final, Generic, TypeVar

from potato_ray.backends.base import Directive, EventSink, Job, Outcome
from potato_ray.backends.endings import Ending, Event, limits_of
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import Follower

logger = logging.getLogger(__name__)

FolderT = TypeVar("FolderT", bound=JobFolder)
SeenT = TypeVar("SeenT")
"""What a look at the folder tells of its end."""

TELL_EVERY_S: Final = 0.5
"""The sink is called at least once a second; this leaves room for a slow disk."""


class Following(ABC, Generic[FolderT, SeenT]):
    """One execution of a job. `clock` is monotonic seconds; `poll_s` lies between two looks."""

    def __init__(
        self,
        folder: FolderT,
        job: Job,
        sink: EventSink,
        *,
        poll_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.folder = folder
        self.limits = limits_of(folder)
        self._job = job
        self._sink = sink
        self._poll_s = poll_s
        self._clock = clock
        self._sleep = sleep
        self._follower = Follower(folder, first_seq=job.first_seq)
        self._next_seq = job.first_seq
        self._ending = Ending()
        self._told_at = float("-inf")
        self._cancelled_at: float | None = None
        self._grace_s = self.limits.grace_s

    @abstractmethod
    def _look(self) -> SeenT:
        """What there is to see of the end."""

    @abstractmethod
    def _notices(self) -> Sequence[Event]:
        """What is to be said besides the worker's events; see EventSink."""

    def _passed_on(self) -> None:
        """The sink has taken all that was read so far."""

    @abstractmethod
    def _outcome(self, seen: SeenT) -> Outcome | None:
        """The outcome, with all events told; None to go on."""

    def _follow(self) -> Outcome:
        """Follow to the end. What the sink raises passes through; the worker goes on."""
        while True:
            # The end first: what was written before it was read is then among the events.
            seen = self._look()
            events = self._follower.poll()
            directive = self._tell(events, self._notices())
            if directive is not None and directive.stale:
                return Outcome("stale")
            if directive is not None:
                self._passed_on()
            if directive is not None and directive.cancel:
                self._request_cancel(directive.grace_s)
            if events:
                continue
            outcome = self._outcome(seen)
            if outcome is not None:
                return outcome
            self._sleep(self._poll_s)

    def _tell(self, events: list[dict[str, Any]], notices: Sequence[Event]) -> Directive | None:
        """Send what there is; None when there was nothing and it is not yet time to ask again."""
        if not events and not notices and self._clock() - self._told_at < TELL_EVERY_S:
            return None
        self._ending.hear(events)
        directive = self._sink(events, self._next_seq, notices)
        self._next_seq += len(events)
        self._told_at = self._clock()
        return directive

    def _request_cancel(self, grace_s: float) -> None:
        """Ask for the worker's end, again and again until the request is on disk."""
        if self._cancelled_at is None:
            self._cancelled_at = self._clock()
            self._grace_s = grace_s
        try:
            self.folder.request_cancel("cancelled", grace_s)
        except OSError as error:
            logger.warning("run %s: its cancel was not written: %s", self._job.run_id, error)

    def _cancelled_for(self) -> float:
        """Seconds since the cancel; below all numbers where there was none."""
        return float("-inf") if self._cancelled_at is None else self._clock() - self._cancelled_at

    def _heard_ending(self) -> Ending:
        """The last words of the run, also those that whoever followed it before has sent already."""
        if self._ending.is_silent and self._job.first_seq:
            self._ending.hear_all(Follower(self.folder))
        return self._ending
