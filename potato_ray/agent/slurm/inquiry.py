"""Asking SLURM how a job has ended: it may not say so at once, and no more once we have cancelled the job."""

from __future__ import annotations

from itertools import chain, repeat
from typing import Callable

from potato_ray.agent.errors import AgentError
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.job_facts import JobFacts
from potato_ray.agent.slurm.states import FINAL
from potato_ray.agent.slurm.submission import Submission
from potato_ray.agent.slurm.watch import WAITING, Tell

PAUSES_S = (1.0, 2.0, 4.0, 8.0)
"""Between two questions; the last one again and again. Many jobs may end at once."""
HEED_EVERY_S = 1.0


class Inquiry:
    """About one job, for one thread. `clock` is monotonic seconds, `sleep` waits between two questions."""

    def __init__(
        self, slurm: Slurm, tell: Tell, clock: Callable[[], float], sleep: Callable[[float], None]
    ) -> None:
        self._slurm = slurm
        self._tell = tell
        self._clock = clock
        self._sleep = sleep
        self._before_end = ""

    def before_it_is_ended(self, submission: Submission) -> None:
        """Ask now: after our own cancel, SLURM speaks of that."""
        self._before_end = self._ask(submission) or ""

    def answer(self, submission: Submission, within_s: float, is_unwanted: Callable[[], bool]) -> str:
        """What scontrol says of the job once it has ended; "" where SLURM does not say so in time."""
        if _says_how(self._before_end):
            return self._before_end
        deadline = self._clock() + within_s
        pauses_s = chain(PAUSES_S, repeat(PAUSES_S[-1]))
        while True:
            shown = self._ask(submission)
            if shown is not None and (not shown or _says_how(shown)):
                return shown
            now = self._clock()
            if now >= deadline or not self._pause(min(now + next(pauses_s), deadline), is_unwanted):
                return shown or ""

    def _pause(self, until: float, is_unwanted: Callable[[], bool]) -> bool:
        """False as soon as the answer is not wanted any more."""
        while not is_unwanted():
            left_s = until - self._clock()
            if left_s <= 0:
                return True
            self._sleep(min(HEED_EVERY_S, left_s))
        return False

    def _ask(self, submission: Submission) -> str | None:
        """ "" where SLURM does not know the job any more, None where it is away."""
        try:
            return self._slurm.show_job(submission.job_id, submission.cluster)
        except AgentError as failure:
            self._tell.step(f"asking how SLURM job {submission.job_id} ended: {failure.message}")
            return None


def _says_how(shown: str) -> bool:
    """Whether the job has ended by what scontrol shows, or waits again; it may just be about to end."""
    return JobFacts.of(shown, "").state in (*FINAL, *WAITING)
