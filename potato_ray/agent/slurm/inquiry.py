"""Asking SLURM how a job has ended: it may not say so at once, and no more once we have cancelled the job."""

from __future__ import annotations

from typing import Callable

from potato_ray.agent.errors import AgentError
from potato_ray.agent.slurm.commands import Slurm
from potato_ray.agent.slurm.job_facts import JobFacts
from potato_ray.agent.slurm.states import FINAL
from potato_ray.agent.slurm.submission import Submission
from potato_ray.agent.slurm.watch import WAITING, Tell

ASK_EVERY_S = 1.0


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
        while True:
            shown = self._ask(submission)
            if shown is not None and (not shown or _says_how(shown)):
                return shown
            if self._clock() >= deadline or is_unwanted():
                return shown or ""
            self._sleep(ASK_EVERY_S)

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
