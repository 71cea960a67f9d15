"""The agent: ends what it finds, then asks for a job, runs it, and asks again, until it is told to stop."""

from __future__ import annotations

import shlex
import threading
import time
from collections import deque
from typing import Callable, NoReturn

from potato_ray.agent.adoption import held_jobs
from potato_ray.agent.apart import Interrupted, apart
from potato_ray.agent.contact import Contact
from potato_ray.agent.errors import AgentError, OtherBackend, ProtocolMismatch, Refused, WrongToken
from potato_ray.agent.held_job import HeldJob
from potato_ray.agent.job_document import JobDocument
from potato_ray.agent.job_run import DELIVERED, JobRun
from potato_ray.agent.patience import Patience
from potato_ray.agent.protocol import OTHER_BACKEND, STALE
from potato_ray.agent.settings import Settings
from potato_ray.agent.stop_request import StopRequest
from potato_ray.agent.taking import take_in_hand
from potato_ray.agent.voice import Voice
from potato_ray.agent.workdir import Workdir

WAITING = "waiting for a job"
MOST_TROUBLES = 8
"""That are remembered as said."""


class Agent:
    """One agent at work. `connect` makes a new line to the server; each thread has its own."""

    def __init__(
        self,
        settings: Settings,
        workdir: Workdir,
        connect: Callable[[], Contact],
        stop: StopRequest,
        voice: Voice,
    ) -> None:
        self.settings = settings
        self.timing = settings.timing
        self.workdir = workdir
        self.connect = connect
        self.stop = stop
        self.voice = voice
        self._contact = connect()
        self._patience = self._new_patience()
        self._troubles: deque[str] = deque(maxlen=MOST_TROUBLES)
        self._answers = False

    def run(self) -> None:
        """Work until told to stop. Raises ProtocolMismatch, OtherBackend.

        With `once`, until one job was claimed and is done with, or one that was taken up has been told.
        """
        done = 0
        for held in held_jobs(
            self.workdir.jobs,
            self.settings.server,
            self.settings.backend,
            self.voice,
            submits=self.settings.slurm is not None,
        ):
            if self.stop.finish:
                self.voice.say(f"job {held.job.run_id} of the agent before this one is left to the next one")
                continue
            self.voice.say(f"job {held.job.run_id} of the agent before this one is taken up")
            end = self._do(held)
            self._answers = end == DELIVERED
            done += self._answers
        self._say_waiting(done)
        while not self.stop.finish and not (self.settings.once and done):
            next_job = self._next_job()
            if next_job is not None:
                self._answers = self._do(next_job) == DELIVERED
                done += 1
                self._say_waiting(done)

    def _say_waiting(self, done: int) -> None:
        if not self.stop.finish and not (self.settings.once and done):
            self.voice.say(WAITING if self._answers else f"asking {self.settings.server} for a job")

    def _do(self, held: HeldJob) -> str:
        self.voice.begin_record()
        trainer = held.job.spec.get("trainer", "a trainer without a name")
        self.voice.say(f"job {held.job.run_id}, attempt {held.job.attempt}: {trainer}")
        return JobRun(held, self.connect, self.settings, self.stop, self.voice).run()

    def _next_job(self) -> HeldJob | None:
        """Ask once; None when there is none, after the wait that the answer calls for."""
        asked_at = time.monotonic()
        try:
            lease = self.workdir.lease_for(self.settings.server, self.settings.backend)
            job = self._ask(lease)
        except Interrupted:
            return None
        except ProtocolMismatch:
            raise
        except WrongToken as wrong:
            self._wait(
                f"{wrong.message} {wrong.evidence} {self._register_again()}", self.timing.refused_retry_s
            )
            return None
        except Refused as refused:
            if refused.code == OTHER_BACKEND:
                raise OtherBackend(
                    refused.message, evidence=refused.evidence, next_step=refused.next_step
                ) from refused
            if refused.code == STALE:
                self.workdir.forget_lease()
            self._wait(str(refused), self._patience.next_wait_s())
            return None
        except (AgentError, OSError, ValueError) as failure:
            self._wait(str(failure), self._patience.next_wait_s(getattr(failure, "retry_after_s", None)))
            return None
        self._answered(job is None)
        if job is None:
            # A server that does not hold its answers back must not be asked all the time.
            self.stop.wait(max(0.0, self.timing.least_poll_s - (time.monotonic() - asked_at)))
            return None
        return self._take(job, lease)

    def _ask(self, lease: str) -> JobDocument | None:
        contact = self._contact
        # A server that has not answered yet is asked for a short while, so that it is soon said that it does.
        longest_s = self.timing.long_poll_s
        wait_s = longest_s if self._answers else min(longest_s, self.timing.least_poll_s)
        try:
            body = apart(
                lambda: contact.claim(lease, wait_s),
                lambda: self.stop.finish,
                self.timing.idle_look_s,
                contact.let_go,
            )
        except Interrupted:
            self._contact = self.connect()
            raise
        if body is None:
            return None
        try:
            return JobDocument.from_json(body)
        except ValueError:
            self.workdir.forget_lease()
            raise

    def _take(self, job: JobDocument, lease: str) -> HeldJob:
        if job.backend not in ("", self.settings.backend):
            self._leave_to_another(job, lease)
        held = take_in_hand(self.workdir.jobs, job, lease, self.settings)
        try:
            self.workdir.forget_lease()
        except OSError as failure:
            self.voice.say(f"the claim could not be removed: {failure}")
        return held

    def _leave_to_another(self, job: JobDocument, lease: str) -> NoReturn:
        """Not to take a job of another backend, so that the agent that is started for that one gets it."""
        try:
            self.workdir.note_lease(self.settings.server, job.backend, lease)
        except OSError as failure:
            self.voice.say(f"the claim could not be noted: {failure}")
        raise OtherBackend(
            f"The token is that of backend {job.backend}, and this agent was started for "
            f"{self.settings.backend}.",
            evidence=f"The server has given it {job.run_id}, which is left to an agent of {job.backend}.",
            next_step=f"Start it with --backend {shlex.quote(job.backend)}, or with the other one's token.",
        )

    def _register_again(self) -> str:
        return (
            f"Where the server is, run: potato-ray training register {self.settings.backend} CONFIG; put the "
            "token that it prints into the file of --token-file, or start this agent with it. It is tried "
            "again now and then, with what is in that file by then."
        )

    def _wait(self, words: str, seconds: float) -> None:
        """Say what is wrong, once until it is over, and wait before the next try."""
        if words not in self._troubles:
            self.voice.say(words)
            self._troubles.append(words)
        self._answers = False
        self.stop.wait(seconds)

    def _answered(self, waits: bool) -> None:
        """The server has given a good answer; `waits`: without a job."""
        again = "the server answers again; " if self._troubles else ""
        if again or (waits and not self._answers):
            self.voice.say(again + WAITING)
        self._troubles.clear()
        self._answers = True
        self._patience.success()

    def _new_patience(self) -> Patience:
        return Patience(
            threading.Event(), first_s=self.timing.first_retry_s, longest_s=self.timing.longest_retry_s
        )
