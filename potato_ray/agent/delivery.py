"""Bringing a job's end home: its last events, its predictions, its result.

Whatever fails is tried again, as long as there is hope; what cannot be brought home is given up in words.
"""

from __future__ import annotations

import threading
import time
from functools import partial
from typing import Any, Callable

from potato_ray.agent.apart import Interrupted, apart
from potato_ray.agent.contact import Contact
from potato_ray.agent.errors import AgentError, Refused, WrongToken
from potato_ray.agent.held_job import Failure, HeldJob
from potato_ray.agent.job_document import MB
from potato_ray.agent.job_end import count_events, result_of, succeeded
from potato_ray.agent.patience import Patience
from potato_ray.agent.protocol import GAP
from potato_ray.agent.relay import Relay
from potato_ray.agent.settings import Settings
from potato_ray.agent.stop_request import StopNotice, StopRequest
from potato_ray.agent.tries import TriesInVain
from potato_ray.agent.voice import Voice

DELIVERED, DROPPED, LEFT = "delivered", "dropped", "left"

PREDICTIONS_MISSING = "predictions_missing"
"""409 on a result: the server has not got the predictions of this job whole."""
PREDICTIONS_TOO_LARGE = "predictions_too_large"
"""413: they are larger than the run allows."""
TOO_LARGE = 413


class Delivery:
    """One per job that has ended, or that could not be run. `connect` makes a new line to the server."""

    def __init__(
        self,
        held: HeldJob,
        relay: Relay,
        connect: Callable[[], Contact],
        stop: StopRequest,
        notice: StopNotice,
        settings: Settings,
        voice: Voice,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._held = held
        self._relay = relay
        self._connect = connect
        self._contact = connect()
        self._stop = stop
        self._notice = notice
        self._settings = settings
        self._timing = settings.timing
        self._voice = voice
        self._clock = clock
        self._n_events = 0
        self._uploaded = False
        self._began_at = clock()
        self._trouble = ""
        self._said_waiting = False
        self._tries = TriesInVain(self._timing.tries_in_vain, clock)
        self._told_twice_at: float | None = None
        self._unanswered: dict[str, Any] | None = None
        self._waits = Patience(
            threading.Event(), first_s=self._timing.first_retry_s, longest_s=self._timing.longest_retry_s
        )

    def run(self) -> str:
        """DELIVERED, DROPPED (the server does not want it, or is not there), or LEFT to the next agent."""
        self._notice.means(
            f"the end of the job has to reach the server first, and is offered for up to {self._patience}; "
            "a second signal leaves it to the next agent here",
            f"after a last try of up to {self._timing.last_try_s:.0f} s the next agent here tells the end of "
            "the job; a third signal leaves it at once",
        )
        while True:
            began_at = self._clock()
            try:
                self._deliver()
                return self._delivered()
            except Interrupted:
                pass
            except Exception as failure:  # noqa: BLE001 - whatever it is, it is tried again, for a while
                self._failed(failure, began_at)
            end = self._given_up()
            if end is not None:
                return end
            self._pause(self._waits.next_wait_s())

    def _deliver(self) -> None:
        """All that the server lacks, in order. Raises AgentError, OSError, Interrupted."""
        self._contact = self._connect()  # the one before may have been let go of
        self._n_events = count_events(self._held.folder)
        self._wait_for_events()
        if self._predictions_are_due():
            self._upload()
        n_events = self._relay.confirmed if self._relay.full else self._n_events
        body = result_of(self._held, self._settings.host, n_events, self._voice.record())
        self._unanswered = body
        self._send(lambda: self._contact.result(self._held, body))

    def _delivered(self) -> str:
        self._voice.say("the end of the job has reached the server")
        return DELIVERED

    def _wait_for_events(self) -> None:
        """Until the server has all that it takes. Raises Interrupted; AgentError when nothing moves."""
        self._relay.hurry()
        confirmed, moved_at = -1, self._clock()
        while self._relay.confirmed < self._n_events and not self._relay.full:
            if self._is_unwanted():
                raise Interrupted
            self._say_waiting()
            if self._relay.confirmed != confirmed:
                confirmed, moved_at = self._relay.confirmed, self._clock()
            if min(self._relay.heard_at, self._clock()) - moved_at >= self._held.job.lost_after_s:
                raise AgentError(f"The server answers, and takes no event after number {confirmed}.")
            time.sleep(self._timing.look_every_s)

    def _predictions_are_due(self) -> bool:
        """Whether they are still to be sent. Predictions that are too large become the job's failure."""
        path = self._held.folder.predictions
        if self._uploaded or not succeeded(self._held) or not path.exists():
            return False
        size = path.stat().st_size
        if size > self._held.job.max_predictions_mb * MB:
            self._too_large(f"They have {size / MB:.0f} MB.")
            return False
        return True

    def _upload(self) -> None:
        path = self._held.folder.predictions
        n_bytes = path.stat().st_size
        self._voice.say(f"sending the predictions, {n_bytes / MB:.1f} MB")
        self._relay.moving("sending the predictions", 0, n_bytes)
        try:
            self._send(lambda: self._contact.predictions(self._held, path, self._sent))
        except Refused as refused:
            if refused.status != TOO_LARGE:
                raise
            self._refused_for_size(refused, n_bytes)
            return
        self._uploaded = True
        self._progress()

    def _sent(self, n_bytes: int, of_bytes: int) -> None:
        self._relay.moving("sending the predictions", n_bytes, of_bytes)

    def _send(self, work: Callable[[], None]) -> None:
        apart(work, self._is_unwanted, self._timing.look_every_s, self._contact.let_go)

    def _failed(self, failure: Exception, began_at: float) -> None:
        """Learn from a try that failed, which began at `began_at`."""
        if isinstance(failure, Refused):
            self._understand(failure)
        self._tries.count(failure, self._relay.heard_at > began_at)
        if str(failure) != self._trouble and not self._relay.over:
            self._say_trouble(failure)
        self._trouble = str(failure)

    def _say_trouble(self, failure: Exception) -> None:
        why = str(failure)
        if isinstance(failure, WrongToken):
            why = failure.message if self._relay.token_refused else why
            why += " An agent that is started anew in this folder tells it, too."
        self._voice.say(
            f"the end of the job is not with the server yet, and is offered for {self._patience}: {why}"
        )
        self._said_waiting = True

    def _say_waiting(self) -> None:
        """Say once that the end waits, should the server not be there."""
        if self._relay.missing and not self._said_waiting:
            self._voice.say(
                f"the end of the job waits for the server, for up to {self._patience}; an agent that is "
                "started anew in this folder tells it, too"
            )
            self._said_waiting = True

    def _understand(self, refused: Refused) -> None:
        """Do what a refusal asks for."""
        if refused.lets_go:
            self._relay.over = self._relay.over or refused.message
            self._unanswered = None
        elif refused.status == 409 and refused.code == GAP:
            next_seq = refused.body.get("next_seq")
            if isinstance(next_seq, int) and next_seq >= 0:
                self._relay.resend_from(next_seq)
        elif refused.status == 409 and refused.code == PREDICTIONS_MISSING:
            self._uploaded = False
            if not self._predictions_are_due():
                self._fail("no_result", "The worker left no predictions.", "Look at the run's log.")

    def _refused_for_size(self, refused: Refused, n_bytes: int) -> None:
        """The predictions become the job's failure: the run's limit, or one of something on the way."""
        if refused.code == PREDICTIONS_TOO_LARGE:
            self._too_large(refused.evidence or refused.message)
            return
        said = " ".join(part for part in (refused.message, refused.evidence) if part)
        self._fail(
            "backend_failed",
            f"Something between the agent and the server, such as a proxy, refuses the predictions, "
            f"{n_bytes / MB:.1f} MB, as too large a request. {said}",
            "Let the proxy take requests of max_predictions_mb (nginx: client_max_body_size), then start "
            "the run again.",
        )

    def _too_large(self, evidence: str) -> None:
        self._fail(
            PREDICTIONS_TOO_LARGE,
            f"The predictions are larger than model_training.max_predictions_mb allows. {evidence}",
            "Raise max_predictions_mb, or predict on fewer items.",
        )

    def _fail(self, code: str, message: str, next_step: str) -> None:
        self._voice.say(f"{message} {next_step}")
        self._held.fail(Failure(code, message, next_step))
        self._progress()

    def _progress(self) -> None:
        self._tries.progress()
        self._waits.success()

    def _is_unwanted(self) -> bool:
        self._notice.look()
        return bool(self._relay.over) or self._has_to_leave() or self._is_alone()

    def _has_to_leave(self) -> bool:
        """Whether another agent has to tell it: this one cannot, or was told to stop twice.

        A last try takes some seconds then; told three times, there is none.
        """
        if self._relay.mismatch is not None:
            return True
        if not self._stop.cancel:
            return False
        now = self._clock()
        self._told_twice_at = now if self._told_twice_at is None else self._told_twice_at
        return self._stop.times > 2 or now - self._told_twice_at >= self._timing.last_try_s

    def _is_alone(self) -> bool:
        """Whether the server was away for as long as this end is worth waiting."""
        return min(self._relay.silent_s, self._clock() - self._began_at) >= self._patience_s

    @property
    def _patience_s(self) -> float:
        """How long a server that is away is waited for."""
        longest_s = self._held.job.lost_after_s
        return max(longest_s, self._timing.deliver_success_s) if succeeded(self._held) else longest_s

    @property
    def _patience(self) -> str:
        """The same in words."""
        hours = self._patience_s / 3600
        return f"{hours:.0f} hours" if hours >= 2 else f"{self._patience_s:.0f} s"

    def _is_refused(self) -> bool:
        """Whether a server that is there does not take it, however often it is asked."""
        return self._tries.are_enough(self._patience_s if self._tries.barred else self._held.job.lost_after_s)

    def _given_up(self) -> str | None:
        """How the delivery ends where there is no hope; None where there is."""
        if self._relay.over:
            if self._was_taken():
                return self._delivered()
            self._voice.say(f"the server has let go of this job: {self._relay.over}")
            return DROPPED
        if self._has_to_leave():
            self._voice.say("the end of this job has not reached the server; the next agent here tells it")
            return LEFT
        if self._is_refused() and not self._tries.barred and self._predictions_are_due():
            self._fail(
                "backend_failed",
                "The agent could not bring the predictions to the server.",
                "Look at agent.log in the run's folder.",
            )
        elif self._is_refused() or self._is_alone():
            self._voice.say("the end of this job does not reach the server; it is given up")
            return DROPPED
        return None

    def _was_taken(self) -> bool:
        """Whether the server has the end already, and only its answer was lost: it gives the same again."""
        body = self._unanswered
        if body is None:
            return False
        contact = self._connect()
        try:
            work = partial(contact.result, self._held, body)
            apart(work, self._has_to_leave, self._timing.look_every_s, contact.let_go)
        except (AgentError, OSError, Interrupted):
            return False
        return True

    def _pause(self, seconds: float) -> None:
        deadline = self._clock() + seconds
        while self._clock() < deadline and not self._is_unwanted():
            time.sleep(self._timing.look_every_s)
