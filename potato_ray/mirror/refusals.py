"""What a mirror does not take, and why."""

from __future__ import annotations

from potato_ray.agent.protocol import GAP, STALE
from potato_ray.errors import Conflict, PotatoRayError


class Malformed(PotatoRayError):
    """A body that is not of the form that the protocol has; nothing came of it."""

    default_code = "malformed_request"


class TooLarge(PotatoRayError):
    """More than the server keeps of one run; nothing came of it."""

    default_code = "predictions_too_large"


class EventsMissing(Conflict):
    """Events before these have not arrived; `next_seq` is the number of the first that is missing."""

    default_code = GAP

    def __init__(self, next_seq: int, evidence: str) -> None:
        super().__init__(
            "Events are missing before these.",
            code=GAP,
            evidence=evidence,
            next_step=f"Send the events from number {next_seq} on, then this request again.",
        )
        self.next_seq = next_seq


def stale(evidence: str) -> Conflict:
    """The error for whoever has the run no longer in hand."""
    return Conflict(
        "This agent does not have the run in hand, or not any more.",
        code=STALE,
        evidence=evidence,
        next_step="Stop the worker, clear up, and ask for the next job.",
    )


def predictions_missing() -> Conflict:
    """The error for a success whose predictions have not arrived."""
    return Conflict(
        "The predictions of this run have not arrived.",
        code="predictions_missing",
        evidence="Its worker ended well, and predictions.jsonl is not there.",
        next_step="PUT the predictions, then send this result again.",
    )
