"""Why a job is not to go on: the server's word, the person's at the machine, or no word for too long."""

from __future__ import annotations

from dataclasses import dataclass

from potato_ray.agent.held_job import Failure, HeldJob
from potato_ray.agent.relay import Relay
from potato_ray.agent.stop_request import StopRequest

CANCELLED = "cancelled"
"""Why a job is ended that the server wants cancelled."""


@dataclass(frozen=True)
class Verdict:
    """An order to end a job: `why` in words, `grace_s` between SIGTERM and SIGKILL.

    `failure` is what the server is told, None where it knows.
    """

    why: str
    grace_s: float
    failure: Failure | None = None


class Judge:
    """Looks at all that can end one job."""

    def __init__(self, held: HeldJob, relay: Relay, stop: StopRequest, host: str) -> None:
        self._held = held
        self._relay = relay
        self._stop = stop
        self._host = host
        self._lost: Verdict | None = None

    def verdict(self) -> Verdict | None:
        """The order to end the job now, or None. Once lost, a job stays so."""
        grace_s = self._held.job.grace_s
        if self._relay.over:
            return Verdict(f"the server has let go of it: {self._relay.over}", grace_s)
        if self._relay.cancel_grace_s is not None:
            return Verdict(CANCELLED, self._relay.cancel_grace_s)
        if self._stop.cancel:
            return Verdict("the agent was told to stop twice", grace_s, self._stopped())
        if self._relay.full:
            return Verdict("the server takes no more of its events", grace_s, self._full())
        if self._held.failure is not None:
            return Verdict(self._held.failure.message, grace_s)
        return self._lost_verdict(grace_s)

    def _lost_verdict(self, grace_s: float) -> Verdict | None:
        silent_s = self._relay.silent_s
        if self._lost is None and silent_s >= self._held.job.lost_after_s:
            why = f"no word from the server for {silent_s:.0f} seconds"
            self._lost = Verdict(why, grace_s, self._no_word(silent_s))
        return self._lost

    def _stopped(self) -> Failure:
        return Failure(
            "killed",
            f"The agent on {self._host} was told to stop twice, and ended the run.",
            "Start the agent there again, then the run.",
        )

    def _full(self) -> Failure:
        return Failure(
            "backend_failed",
            f"The server took no more events of this run: {self._relay.full}",
            "Let its trainer say less, then start the run again.",
        )

    def _no_word(self, silent_s: float) -> Failure:
        return Failure(
            "heartbeat_lost",
            f"The agent on {self._host} had no word from the server for {silent_s:.0f} seconds, "
            "and ended the run.",
            "Look at the way between the two, then start the run again.",
        )
