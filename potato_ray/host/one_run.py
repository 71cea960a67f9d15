"""An agent's work for the one run that it was started for: claim it or take it up, bring it to its end."""

from __future__ import annotations

import threading
import time
from typing import Any, Callable, Mapping

from potato_ray.agent.adoption import held_jobs
from potato_ray.agent.apart import Interrupted, apart
from potato_ray.agent.contact import Contact
from potato_ray.agent.errors import AgentError, Refused
from potato_ray.agent.held_job import HeldJob
from potato_ray.agent.job_document import JobDocument
from potato_ray.agent.job_run import JobRun
from potato_ray.agent.patience import Patience
from potato_ray.agent.settings import Settings
from potato_ray.agent.stop_request import StopRequest
from potato_ray.agent.taking import take_in_hand
from potato_ray.agent.voice import Voice
from potato_ray.host.run_folder import HostWorkdir

NOT_CLAIMED = "not_claimed"
"""The end of an agent that never had its run in hand."""


class OneRun:
    """Ends with delivered, dropped or left (agent.delivery), or NOT_CLAIMED, for which `trouble` says why.

    `name` is that of the run's folder; the server has `patience_s` to give the job out. `given`: the job,
    where the server has given it out already, with the lease.
    """

    def __init__(
        self,
        name: str,
        settings: Settings,
        workdir: HostWorkdir,
        connect: Callable[[], Contact],
        stop: StopRequest,
        voice: Voice,
        patience_s: float,
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self._name = name
        self._settings = settings
        self._timing = settings.timing
        self._workdir = workdir
        self._connect = connect
        self._stop = stop
        self._voice = voice
        self._patience_s = patience_s
        self._given = given
        self.trouble = ""

    def run(self) -> str:
        """How it ended. Raises ProtocolMismatch."""
        held = self._found() or self._taken_as_given() or self._claimed()
        if held is None:
            return NOT_CLAIMED
        self._voice.say(f"job {self._name}: {held.job.spec.get('trainer', 'a trainer without a name')}")
        return JobRun(held, self._connect, self._settings, self._stop, self._voice).run()

    def _found(self) -> HeldJob | None:
        """The run in the hands of an agent before this one, under the lease that is valid now."""
        settings = self._settings
        submits = settings.slurm is not None
        for held in held_jobs(
            self._workdir.jobs, settings.server, settings.backend, self._voice, submits=submits
        ):
            if held.job.name == self._name:
                held.lease = self._workdir.lease
                self._voice.say("the job of the agent before this one is taken up")
                return held
        return None

    def _taken_as_given(self) -> HeldJob | None:
        """The run that came with the lease: it need not be asked for."""
        if self._given is None or self._stop.finish:
            return None
        try:
            return self._take(self._checked(self._given))
        except ValueError as failure:
            self._say(str(failure))
            return None

    def _claimed(self) -> HeldJob | None:
        """The run from the server; None where it is not given out, or this agent is to stop."""
        ends_at = time.monotonic() + self._patience_s
        waits = Patience(
            threading.Event(), first_s=self._timing.first_retry_s, longest_s=self._timing.longest_retry_s
        )
        while not self._stop.finish and time.monotonic() < ends_at:
            try:
                job = self._ask()
                if job is not None:
                    return self._take(job)
                self._say("the server gives out no job yet")
            except Interrupted:
                break
            except Refused as refused:
                self._say(str(refused))
                return None
            except (AgentError, ValueError) as failure:
                self._say(str(failure))
            self._stop.wait(waits.next_wait_s())
        self.trouble = self.trouble or "it was told to stop"
        return None

    def _ask(self) -> JobDocument | None:
        contact = self._connect()
        body = apart(
            lambda: contact.claim(self._workdir.lease, self._timing.long_poll_s),
            lambda: self._stop.finish,
            self._timing.idle_look_s,
            contact.let_go,
        )
        return None if body is None else self._checked(body)

    def _checked(self, body: Any) -> JobDocument:
        """The job in an answer. Raises ValueError for what is no job, or another one."""
        job = JobDocument.from_json(body)
        if job.name != self._name:
            raise ValueError(f"the server gave out another job: {job.name}")
        return job

    def _take(self, job: JobDocument) -> HeldJob:
        return take_in_hand(self._workdir.jobs, job, self._workdir.lease, self._settings)

    def _say(self, words: str) -> None:
        """Once as long as it stays the same."""
        if words != self.trouble:
            self._voice.say(words)
        self.trouble = words
