"""One job from the server's answer to its end here.

    code, bundle, spec ─▶ launcher ─▶ follow ─▶ events, predictions and result home ─▶ clear up

Every step begins with a look at what lies in the folder, so that an agent that was started anew goes on
where the one before it was, in whatever moment that was killed.
"""

from __future__ import annotations

import errno
import time
from typing import Callable, TypeVar

from potato_ray.agent.apart import Interrupted, apart
from potato_ray.agent.code_store import CodeInUse
from potato_ray.agent.contact import Contact
from potato_ray.agent.delivery import DELIVERED, DROPPED, LEFT, Delivery
from potato_ray.agent.errors import AgentError
from potato_ray.agent.held_job import Failure, HeldJob
from potato_ray.agent.job_document import MB
from potato_ray.agent.job_end import end_in_words, succeeded
from potato_ray.agent.launching import NotLaunched
from potato_ray.agent.own_machine import OwnMachine
from potato_ray.agent.relay import Relay
from potato_ray.agent.settings import Settings
from potato_ray.agent.stop_request import StopNotice, StopRequest
from potato_ray.agent.verdict import CANCELLED, Judge, Verdict
from potato_ray.agent.voice import Voice
from potato_ray.agent.workplace import Workplace
from potato_ray.job.events import EXIT_CANCELLED
from potato_ray.job.folder import Exit, read_json, write_json
from potato_ray.job.follow import ALIVE, ENDED, GONE, Follower
from potato_ray.job.lease_keeper import LeaseKeeper

__all__ = ["DELIVERED", "DROPPED", "LEFT", "JobRun"]

T = TypeVar("T")

AT_ONCE = 3
"""Signals after which an agent leaves whatever it is about."""
_FULL = (errno.ENOSPC, errno.EDQUOT)


class JobRun:
    """Runs one held job. `connect` makes a new line to the server; each thread has its own."""

    def __init__(
        self,
        held: HeldJob,
        connect: Callable[[], Contact],
        settings: Settings,
        stop: StopRequest,
        voice: Voice,
    ) -> None:
        self.held = held
        self.folder = held.folder
        self.settings = settings
        self.timing = settings.timing
        self.voice = voice
        self._notice = StopNotice(stop, voice)
        self._stop = stop
        self._connect = connect
        self._contact = connect()
        self.relay = Relay(held, connect(), settings.timing, voice)
        self.judge = Judge(held, self.relay, stop, settings.host)
        self.place = self._place()
        self._cancelled_at: float | None = None
        self._grace_s = held.job.grace_s

    def _place(self) -> Workplace:
        # One that an agent before this one has begun here goes on here.
        is_here = self.folder.process.exists() and not self.folder.submission.exists()
        if self.settings.slurm is None or is_here:
            return OwnMachine(self.held, self.settings, self.voice)
        # Imported by those alone that submit: an agent starts quickly.
        from potato_ray.agent.slurm.place import SlurmPlace

        return SlurmPlace(
            self.held,
            self.settings,
            self.settings.slurm,
            self.relay,
            self._is_unwanted,
            is_impatient=lambda: self._stop.times >= AT_ONCE,
        )

    def run(self) -> str:
        """DELIVERED: the server has the end. DROPPED: it wants none. LEFT: the next agent has to tell it.

        Raises ProtocolMismatch where this agent cannot tell it; the next one can.
        """
        with self.relay:
            try:
                self._to_its_end()
            except Exception as error:  # noqa: BLE001 - whatever it is, nothing runs on and the server is told
                self._fail(self._met(error))
                self._end_worker()
            finally:
                self.place.close()
            if not self.relay.over:
                self.voice.say(f"the job has ended: {end_in_words(self.held)}")
            end = Delivery(
                self.held, self.relay, self._connect, self._stop, self._notice, self.settings, self.voice
            ).run()
        if end == LEFT and self.relay.mismatch is not None:
            raise self.relay.mismatch
        self._clear_up(end)
        return end

    def _to_its_end(self) -> None:
        if not self.place.has_started():
            if self.held.failure is not None:
                self.place.end()  # the agent before this one may have died over that
                return
            try:
                with self._prepare() as code:
                    self.relay.step("starting the worker")
                    self.relay.log(f"The agent on {self.settings.host} runs it with {self.place.python}.")
                    self.place.start(code.root)
                    self._follow()
            except Interrupted:
                self.place.end()
                self._never_started(self.judge.verdict())
        else:
            # What runs already has its code loaded, for the most part; no other job's comes before its end.
            self._follow()

    def _prepare(self) -> CodeInUse:
        """Fetch what is not there yet; the code, in use. Raises Interrupted, AgentError, OSError."""
        self.relay.step("fetching the code")
        code = self._apart(lambda: self._contact.code(self.held))
        try:
            self.place.prepare(code.root)
            self._prepare_folder()
        except BaseException:
            code.release()
            raise
        return code

    def _prepare_folder(self) -> None:
        if not self.folder.bundle.exists():
            n_bytes = self.held.job.bundle.n_bytes
            self.voice.say(f"downloading the bundle, {n_bytes / MB:.1f} MB")
            self._told(0, n_bytes)
            self._apart(lambda: self._contact.bundle(self.held, self._told))
        write_json(self.folder.spec, self.place.spec())

    def _told(self, n_bytes: int, of_bytes: int) -> None:
        self.relay.moving("downloading the bundle", n_bytes, of_bytes)

    def _apart(self, work: Callable[[], T]) -> T:
        return apart(work, self._is_unwanted, self.timing.look_every_s, self._contact.let_go)

    def _is_unwanted(self) -> bool:
        self._notice.look()
        return self.judge.verdict() is not None

    def _never_started(self, verdict: Verdict | None) -> None:
        """Leave the end of a job whose worker was never started."""
        why = verdict.why if verdict is not None else "cancelled"
        self.voice.say(f"the job is ended before its worker was started: {why}")
        if verdict is not None and verdict.failure is not None:
            self.held.fail(verdict.failure)
        now = time.time()
        self.folder.write_exit(
            Exit(EXIT_CANCELLED, None, "cancelled", 0.0, now, now, "Its worker was not started any more.")
        )

    def _follow(self) -> None:
        """Until the worker has ended, and nothing of it is left."""
        if self.place.state() == ALIVE:
            self.voice.say("the worker runs")
        with LeaseKeeper(Follower(self.folder), self.timing.lease_every_s):
            self._watch()
        if not self._has_ended() or self.place.may_go_on:
            self.place.end()
        self._hear_place()
        self.relay.alive = False
        self.relay.hurry()

    def _watch(self) -> None:
        while True:
            state = self.place.state()
            self.relay.alive = state == ALIVE
            self._notice.look()
            verdict = self.judge.verdict()
            if verdict is not None:
                self._cancel(verdict)
            if state in (ENDED, GONE) or self._out_of_patience():
                return
            time.sleep(self.timing.look_every_s)

    def _cancel(self, verdict: Verdict) -> None:
        """Ask for the worker's end, again and again until it has come."""
        if self._cancelled_at is None:
            self._cancelled_at = time.monotonic()
            self._grace_s = verdict.grace_s
            self.voice.say(f"ending the job: {verdict.why}")
            if verdict.failure is not None:
                self.held.fail(verdict.failure)
        self.place.cancel(verdict.why, verdict.grace_s)

    def _out_of_patience(self) -> bool:
        """Whether the launcher has not done what it has to, long after it was asked."""
        if not self.folder.path.exists():
            return True
        if self._cancelled_at is None:
            return False
        return time.monotonic() - self._cancelled_at >= self._grace_s + self.place.after_grace_s

    def _has_ended(self) -> bool:
        """Whether exit.json is there, after a moment: a launcher writes it as its last act."""
        deadline = time.monotonic() + self.timing.settle_s
        while not self.folder.exit.exists():
            if time.monotonic() >= deadline:
                return False
            time.sleep(self.timing.look_every_s)
        return True

    def _hear_place(self) -> None:
        """Tell why the place has ended the worker, unless that was done for us."""
        failure = self.place.failure() if self._cancelled_at is None else None
        if failure is not None:
            self._fail(failure)

    def _fail(self, failure: Failure) -> None:
        self.voice.say(f"{failure.message} {failure.next_step}")
        self.held.fail(failure)

    def _end_worker(self) -> None:
        """After trouble of our own: a worker that runs all the same is ended."""
        try:
            state = self.place.state()
            if state == ALIVE:
                self._follow()
            if state in (ALIVE, ENDED):
                return
        except Exception as error:  # noqa: BLE001 - what can be told is told all the same
            self.voice.say(f"the job's folder cannot be read: {error}")
        try:
            self.place.end()  # one that waits for its turn, or that cannot be followed
        except Exception as error:  # noqa: BLE001
            self.voice.say(f"what there may be of the job could not be ended: {error}")

    def _met(self, error: Exception) -> Failure:
        """What the server is told of trouble that the agent itself has met."""
        if isinstance(error, NotLaunched):
            return error.failure
        if isinstance(error, AgentError):
            message = " ".join(part for part in (error.message, error.evidence) if part)
            return Failure("backend_failed", self._here(message), error.next_step or "Start the run again.")
        if isinstance(error, OSError) and error.errno in _FULL:
            where = f"The disk is full where the agent keeps its jobs: {self.settings.workdir}."
            return Failure("backend_failed", self._here(where), "Free some space there and start again.")
        said = f"The agent could not work in {self.settings.workdir}: {type(error).__name__}: {error}."
        return Failure(
            "backend_failed", self._here(said), "Look at that folder and its disk, then start again."
        )

    def _here(self, message: str) -> str:
        return f"On {self.settings.host}: {message}"

    def _is_worthless(self) -> bool:
        """Whether nothing of a job is kept: the server let go of it, and asked nobody to cancel it before."""
        return bool(self.relay.over) and not succeeded(self.held) and not self._was_cancelled()

    def _was_cancelled(self) -> bool:
        """Whether the server has asked to cancel it, this agent or the one before."""
        if self.relay.cancel_grace_s is not None:
            return True
        try:
            return (read_json(self.folder.cancel) or {}).get("reason") == CANCELLED
        except (OSError, ValueError):
            return False  # empty, for want of space

    def _clear_up(self, end: str) -> None:
        if end == LEFT or self.place.may_go_on:
            return
        try:
            if end == DROPPED and self._is_worthless() and not self.settings.keep:
                self.held.discard()
            else:
                self.held.finish(self.settings.keep)
        except OSError as failure:
            self.voice.say(
                f"the job's folder could not be cleared up; it is tried at the next start: {failure}"
            )
