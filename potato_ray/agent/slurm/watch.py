"""Watching one SLURM job from a thread of its own: how it stands, told as it changes, and its cancel.

    look ─▶ told, where it has changed ─▶ orders to cancel ─▶ wait for the next look

SLURM's commands may take a minute each; who asks `seen` never waits for one.
"""

from __future__ import annotations

import re
import threading
import time
from types import TracebackType
from typing import Callable, Protocol

from potato_ray.agent.errors import AgentError
from potato_ray.agent.slurm.commands import Slurm, SlurmAway
from potato_ray.agent.slurm.looks import Looks
from potato_ray.agent.slurm.states import NOT_SEEN, JobState, in_words, needs_a_person
from potato_ray.agent.slurm.submission import Submission

SOON_S = 1.0
"""Between two looks while the job is to end."""
JOIN_S = 2.0
WAITING = frozenset(
    "PENDING CONFIGURING REQUEUED REQUEUE_HOLD REQUEUE_FED SPECIAL_EXIT RESV_DEL_HOLD".split()  # noqa: SIM905
)
"""States of a job that has no node yet."""
LOOK, CANCEL = "look", "cancel"
"""What SLURM may be away for: its commands fail each in its own way."""
ABSENT_LOOKS = 2
"""As Looks has it, for one that asks alone."""
_OVER = re.compile(r"Invalid job id specified|already complet", re.IGNORECASE)
"""What scancel says of a job that has ended since the look."""


class Tell(Protocol):
    """Who tells people: the relay of a job."""

    def step(self, words: str) -> None:
        """What is going on."""

    def log(self, words: str, level: str = "info") -> None:
        """A line of the run's log."""


class JobWatch:
    """For the length of a `with` block, or until `close`. `clock` is monotonic seconds.

    `has_begun`: whether the worker speaks for itself; the step line is its own from then on.
    """

    def __init__(
        self,
        slurm: Slurm,
        submission: Submission,
        looks: Looks,
        tell: Tell,
        every_s: float,
        has_begun: Callable[[], bool],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._slurm = slurm
        self._submission = submission
        self._looks = looks
        self._tell = tell
        self._every_s = every_s
        self._has_begun = has_begun
        self._clock = clock
        self._seen: JobState | None = NOT_SEEN
        self._told = ""
        self._step_told = ""
        self._away_since: dict[str, float] = {}
        self._grace_ends_at: float | None = None
        self._told_to_end = False
        self._next_order_at = float("-inf")
        self._refused = ""
        self._warned = ""
        self._asked_alone_at = float("-inf")
        self._alone_away: SlurmAway | None = None
        self._absent = 0
        self._unshared = ""
        self._awake = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"SLURM job {submission.job_id}", daemon=True)
        self._started = False

    def start(self) -> None:
        """Begin, unless that was done."""
        if not self._started:
            self._thread.start()
            self._started = True

    def close(self) -> None:
        """Watch no more. A command that hangs is not waited for."""
        self._end.set()
        self._awake.set()
        if self._started:
            self._thread.join(JOIN_S)
        self._looks.forget(self._submission.key)

    def __enter__(self) -> JobWatch:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def seen(self) -> JobState | None:
        """How the job stood at the last look that reached SLURM; None: SLURM knows it no more."""
        return self._seen

    def cancel(self, grace_s: float) -> None:
        """Have the job told to end now, and ended for good after so many seconds. Once."""
        if self._grace_ends_at is None:
            self._grace_ends_at = self._clock() + grace_s
            self._awake.set()

    def turn(self) -> float:
        """Look once, and give the order that is due; seconds until the next turn."""
        self._try(LOOK, self._look)
        grace_ends_at = self._grace_ends_at
        if grace_ends_at is not None:
            # Also after a look that failed: a cancel needs none.
            self._try(CANCEL, lambda: self._order(grace_ends_at))
        # Looks that come early cost SLURM nothing: it is asked once an interval.
        return self._every_s if self._grace_ends_at is None else min(SOON_S, self._every_s)

    def _try(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except SlurmAway as away:
            self._say_away(what, away)
        except Exception as failure:  # noqa: BLE001 - whatever it is, the job is looked at again
            said = str(failure) if isinstance(failure, (AgentError, OSError)) else repr(failure)
            words = f"SLURM job {self._submission.job_id} cannot be looked at: {said}"
            self._say(words, words, "warning")

    def _run(self) -> None:
        while True:
            self._awake.clear()
            if self._end.is_set():
                return
            self._awake.wait(self.turn())

    def _look(self) -> None:
        try:
            seen = self._looks.look(self._submission.key)
        except OSError as failure:
            seen = self._alone(failure)
        self._say_back(LOOK)
        if seen is NOT_SEEN:
            return
        self._seen = seen
        if seen is not None:
            words = in_words(self._submission.job_id, seen)
            if seen.final and self._grace_ends_at is not None:
                words += ", after its cancel"
            if self._say(words, f"waiting for {words}"):
                self._warn(seen)

    def _alone(self, failure: OSError) -> JobState | None:
        """As Looks.look, for this job alone, where no folder can be shared. Raises SlurmAway."""
        if str(failure) != self._unshared:
            self._unshared = str(failure)
            self._tell.log(f"SLURM is asked for this job alone, for want of a folder: {failure}", "warning")
        if self._clock() - self._asked_alone_at < self._every_s:
            if self._alone_away is not None:
                raise self._alone_away
            return self._seen
        self._asked_alone_at, self._alone_away = self._clock(), None
        submission = self._submission
        try:
            found = self._slurm.jobs("-j", submission.job_id, at=time.time(), cluster=submission.cluster)
        except SlurmAway as away:
            self._alone_away = away
            raise
        seen = found.get(submission.job_id)
        self._absent = 0 if seen is not None else self._absent + 1
        return self._seen if seen is None and self._absent < ABSENT_LOOKS else seen

    def _warn(self, seen: JobState) -> None:
        """Say, once for each reason, that a job will never start by itself."""
        words = needs_a_person(seen)
        if words:
            self._step_told = f"{in_words(self._submission.job_id, seen)}: a person has to act, see the log"
            self._step(self._step_told)
        if words and words != self._warned:
            job = f"SLURM job {self._submission.job_id}"
            self._tell.log(f"{job} does not start by itself: {words}", "warning")
        self._warned = words

    def _order(self, grace_ends_at: float) -> None:
        """Tell the job to end, as long as it has not. Raises SlurmAway."""
        seen, now = self._seen, self._clock()
        if seen is None or seen.final or now < self._next_order_at:
            return
        # A look may be from before the job's start; a worker has its grace all the same.
        waits = (not seen.state or seen.state in WAITING) and not self._has_begun()
        # Noted first: an order that SLURM does not hear is given again after the same time.
        if waits or now >= grace_ends_at:
            self._next_order_at = now + self._every_s
            self._scancel()
            return
        self._next_order_at = min(now + self._every_s, grace_ends_at)
        if not self._told_to_end:
            # Shell and children alike, while plain scancel reaches the shell alone where cgroups track them.
            self._told_to_end = self._scancel("--full", "--signal=TERM")

    def _scancel(self, *flags: str) -> bool:
        """Whether SLURM has taken it."""
        job_id = self._submission.job_id
        said = self._slurm.scancel(*flags, job_id, cluster=self._submission.cluster)
        self._say_back(CANCEL)
        if said.code != 0 and _OVER.search(said.words):
            return True
        if said.code != 0 and said.words != self._refused:
            self._refused = said.words
            self._tell.log(
                f"SLURM job {job_id} was not cancelled, it is tried again: {said.words}", "warning"
            )
        return said.code == 0

    def _say(self, words: str, step: str, level: str = "info") -> bool:
        """Tell people, in the log and in the step line; False where they have heard it last."""
        if words == self._told:
            return False
        self._told = words
        self._tell.log(words, level)
        self._step_told = step
        self._step(step)
        return True

    def _step(self, words: str) -> None:
        if not self._has_begun():
            self._tell.step(words)

    def _say_back(self, what: str) -> None:
        since = self._away_since.pop(what, None)
        if since is None:
            return
        self._tell.log(f"SLURM answers again, after {self._clock() - since:.0f} s")
        if self._step_told:
            self._step(self._step_told)

    def _say_away(self, what: str, away: SlurmAway) -> None:
        if what in self._away_since:
            return
        self._away_since[what] = self._clock()
        self._tell.log(f"{away.message} {away.evidence}".strip(), "warning")
        self._step(f"{away.message.rstrip('.')}; it is asked again")
