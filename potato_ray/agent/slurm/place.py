"""SLURM as the place where a worker runs: submitted from this login node, followed on shared storage."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any, Callable

from potato_ray.agent.apart import apart
from potato_ray.agent.held_job import Failure, HeldJob
from potato_ray.agent.job_end import tail_of
from potato_ray.agent.launching import NotLaunched
from potato_ray.agent.settings import Settings
from potato_ray.agent.slurm.cancelling import cancel_by_name
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.endings import ending, is_from_outside
from potato_ray.agent.slurm.inquiry import Inquiry
from potato_ray.agent.slurm.job_facts import prelude_failures
from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.slurm.looks import Looks, folder_name
from potato_ray.agent.slurm.sbatch_lock import has_ended
from potato_ray.agent.slurm.script import OUTPUT, job_script
from potato_ray.agent.slurm.states import JobState
from potato_ray.agent.slurm.submission import Submission, submit
from potato_ray.agent.slurm.watch import WAITING, JobWatch, Tell
from potato_ray.agent.workplace import Workplace
from potato_ray.job.events import EXIT_CANCELLED
from potato_ray.job.folder import Exit
from potato_ray.job.follow import ALIVE, ENDED, GONE, STARTING, Follower

AFTER_GRACE_S = 900.0
"""How long a SLURM that is away is waited for until it takes a cancel."""
LIST_EVERY_S = 1.0
"""A job's folder; that costs a file server something."""
AGAIN_S = 10.0
"""Between two cancels of a job whose submission was broken off."""
ASKED_SETTLE_S = 3.0
"""How much later a worker may be seen whose job has ended after it was asked for its end."""
SETTLE_S = 30.0
"""How much later than the end of its job exit.json may be seen: a network file system keeps what it knew."""


class SlurmPlace(Workplace):
    """`is_unwanted`: whether the start is to be broken off. `clock` is monotonic seconds.

    `is_impatient`: whether the agent was told to stop at once, whatever is left behind. `follow` has a watch
    begin; `sleep` waits between two questions how a job has ended.
    """

    after_grace_s = AFTER_GRACE_S

    def __init__(
        self,
        held: HeldJob,
        settings: Settings,
        keys: SlurmKeys,
        tell: Tell,
        is_unwanted: Callable[[], bool],
        *,
        is_impatient: Callable[[], bool] = lambda: False,
        settle_s: float = SETTLE_S,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        follow: Callable[[JobWatch], None] = JobWatch.start,
    ) -> None:
        self._held = held
        self._folder = held.folder
        self._settings = settings
        self._keys = keys
        self.python = keys.job_python or settings.python
        self._tell = tell
        self._is_unwanted = is_unwanted
        self._is_impatient = is_impatient
        self._settle_s = settle_s
        self._clock = clock
        self._follow = follow
        self._sleep = sleep
        self._slurm = Slurm(keys.env, host=settings.host)
        self._inquiry = Inquiry(self._slurm, tell, clock, sleep)
        self._submission = Submission.read(held.folder.path)
        # An end that an agent has written says nothing of SLURM: see `end`.
        was_told = held.folder.exit.exists() and not held.folder.process.exists()
        self.may_go_on = was_told and self._submission is not None
        self._watch: JobWatch | None = None
        self._follower = Follower(held.folder)
        self._has_run = False
        self._over_since: float | None = None
        self._cancelled = False
        self._submitting: threading.Event | None = None
        self._is_refused = False
        self._problem = ""
        self._listed_at = float("-inf")
        self._prelude_read: set[str] = set()
        self._prelude_told: set[str] = set()

    def has_started(self) -> bool:
        return bool(self._submission is not None and self._submission.job_id) or self._folder.exit.exists()

    def spec(self) -> dict[str, Any]:
        return dict(self._held.job.spec)

    def start(self, code: Path) -> None:
        """Submit it. Raises NotLaunched, Interrupted, AgentError, OSError."""
        self._tell.step("submitting the job to SLURM")
        stop = threading.Event()
        self._submitting = threading.Event()

        def script(name: str) -> str:
            return job_script(self._keys, name, self._folder.path.resolve(), code, self._settings.python)

        try:
            self._submission = apart(
                lambda: self._submit(script, stop),
                self._is_unwanted,
                self._settings.timing.look_every_s,
                stop.set,
            )
        except BaseException as failure:
            # What was begun has a name, for `end`; perhaps it was but its note that could not be written.
            self._is_refused = isinstance(failure, NotLaunched)
            self._submission = Submission.read(self._folder.path)
            raise
        flags = " ".join([*self._keys.flags(), *self._keys.sbatch_args])
        self._tell.log(f"Submitted SLURM job {self._submission.job_id}: {flags or 'no flags of its own'}")
        self._tell.step(f"waiting for SLURM job {self._submission.job_id}: submitted")

    def _submit(self, script: Callable[[str], str], stop: threading.Event) -> Submission:
        assert self._submitting is not None  # noqa: S101 - for the type checker; see start
        try:
            return submit(self._slurm, self._folder.path, self._held.job.name, script, stop)
        finally:
            self._submitting.set()

    def state(self) -> str:
        if self._exit_is_there():
            self._tell_of_prelude("at its end")
            return ENDED
        if not self._has_id:
            return STARTING
        seen = self._watching().seen
        if seen is None or seen.final:
            return self._over(seen)
        self._over_since = None
        waits = not seen.state or seen.state in WAITING
        self._has_run = self._has_run or not waits
        if waits and self._folder.process.exists():
            # Back in the queue, where it cannot go on; or squeue has not looked since its start.
            return GONE if self._has_run else self._follower.state()
        if waits or not self._folder.process.exists():
            return STARTING
        self._tell_of_prelude("at its beginning")
        return ALIVE

    def _tell_of_prelude(self, when: str) -> None:
        """Say which lines failed before a worker that began all the same: once at each `when`."""
        if when in self._prelude_read or not self._keys.prelude or not self._folder.process.exists():
            return
        self._prelude_read.add(when)
        for failure in prelude_failures(tail_of(self._folder.path / OUTPUT)):
            if failure not in self._prelude_told:
                self._prelude_told.add(failure)
                self._tell.log(f"{failure[0].upper()}{failure[1:]}; the worker began all the same", "warning")

    def cancel(self, why: str, grace_s: float) -> None:
        """Ask the launcher, in its folder, and SLURM; the first tells it that the signal is ours."""
        self._cancelled = True
        try:
            self._folder.request_cancel(why, grace_s)
        except OSError:
            pass  # tried again at the next look
        if self._has_id:
            self._watching().cancel(grace_s)

    def end(self) -> None:
        """Cancel by the job's name, which also finds one whose submission was broken off."""
        submission, problem = self._submission, ""
        if submission is not None:
            if submission.job_id and not self._was_asked:
                self._inquiry.before_it_is_ended(submission)
            in_doubt = not submission.job_id and not self._is_refused
            problem = self._end_in_doubt() if in_doubt else cancel_by_name(self._slurm, submission)
            if problem:
                job = submission.job_id or submission.name
                self._tell.log(f"SLURM job {job} was not cancelled: {problem}", "warning")
        self.may_go_on = bool(problem)
        if self._was_asked and not self._folder.process.exists() and not self._folder.exit.exists():
            self._write_cancelled()

    def _end_in_doubt(self) -> str:
        """Cancel what an sbatch that was let go of may have submitted, or may still; what has kept from it.

        A controller that hung takes sbatch's words and scancel's when it wakes: the second is said twice. An
        agent that is told to stop at once leaves it to whoever clears up later.
        """
        self._wait_for_sbatch()
        ends_at, taken = self._clock() + self.after_grace_s, 0
        while True:
            submission = Submission.read(self._folder.path)
            problem = cancel_by_name(self._slurm, submission) if submission is not None else ""
            taken += 1 if not problem else 0
            if taken == 2 or self._clock() >= ends_at:
                return problem
            if self._is_impatient():
                return problem or "the agent was told to stop before SLURM could be asked again"
            if problem and problem != self._problem:
                self._problem = problem
                self._tell.log(f"SLURM has not taken the cancel, it is tried again: {problem}", "warning")
            self._sleep(AGAIN_S)

    def _wait_for_sbatch(self) -> None:
        """For that of this agent, and for one of the agent before it."""
        if self._submitting is not None:
            self._submitting.wait(self._slurm.timeout_s)
        # One that hangs: what it submits is cancelled below, or known to whoever clears up.
        has_ended(self._folder.path, self._slurm.timeout_s)

    def _write_cancelled(self) -> None:
        now = time.time()
        said = "It was cancelled before its worker began."
        if self.may_go_on:
            said = "It was cancelled before its worker began; SLURM has not taken that yet."
        try:
            self._folder.write_exit(Exit(EXIT_CANCELLED, None, "cancelled", 0.0, now, now, said))
        except OSError as failure:
            self._tell.log(f"The end of the job could not be written: {failure}", "warning")

    def failure(self) -> Failure | None:
        submission, end = self._submission, self._end()
        if submission is None or not submission.job_id or self._was_asked:
            return None
        if end is not None and not is_from_outside(end):
            return None
        return ending(
            submission.job_id,
            self._inquiry.answer(submission, self._settle_s, self._is_unwanted),
            tail_of(self._folder.path / OUTPUT),
            end,
            seen=self._watch.seen if self._watch is not None else None,
            python=self.python,
        )

    def close(self) -> None:
        if self._watch is not None:
            self._watch.close()

    def _end(self) -> Exit | None:
        try:
            return self._folder.read_exit()
        except (OSError, ValueError, TypeError):
            return None

    @property
    def _was_asked(self) -> bool:
        """Whether the end was asked for, by this agent or the one before."""
        return self._cancelled or self._folder.cancel.exists()

    @property
    def _has_id(self) -> bool:
        return self._submission is not None and bool(self._submission.job_id)

    def _watching(self) -> JobWatch:
        if self._watch is None:
            assert self._submission is not None  # noqa: S101 - for the type checker; see _has_id
            shared = self._settings.shared_dir or self._settings.workdir
            folder = shared / folder_name(self._slurm.host, self._keys.env)
            looks = Looks(self._slurm, folder, self._keys.poll_interval_s)
            self._watch = JobWatch(
                self._slurm,
                self._submission,
                looks,
                self._tell,
                self._keys.poll_interval_s,
                self._folder.process.exists,
                self._clock,
            )
            self._follow(self._watch)
        return self._watch

    def _over(self, seen: JobState | None) -> str:
        """SLURM says that the job has ended, or knows it no more: exit.json may still come into sight."""
        if seen is not None and (seen.state, seen.nodes) == ("CANCELLED", ""):
            return GONE  # while it waited: there was no launcher to leave one
        now = self._clock()
        if self._over_since is None:
            self._over_since = now
        # One whose worker has not begun has nothing to show; it may have been ended before that.
        never_began = self._was_asked and not self._folder.process.exists()
        settle_s = min(ASKED_SETTLE_S, self._settle_s) if never_began else self._settle_s
        return GONE if now - self._over_since >= settle_s else ALIVE

    def _exit_is_there(self) -> bool:
        if self._folder.exit.exists():
            return True
        now = self._clock()
        if now - self._listed_at < LIST_EVERY_S:
            return False
        self._listed_at = now
        try:
            list(self._folder.path.iterdir())  # has a network file system look again
        except OSError:
            return False
        return self._folder.exit.exists()
