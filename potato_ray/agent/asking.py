"""What a request holds: its parts, and how a body is described to the server."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Mapping, NamedTuple, Protocol

from potato_ray.agent import protocol
from potato_ray.agent.line import Patient
from potato_ray.agent.patience import Stop
from potato_ray.agent.upload import Upload
from potato_ray.job.event_log import clean

SLOW_BYTES_PER_S = 8 * 1024
"""A body gets this much more time than a request without one: it may lie in the buffers of a slow uplink."""
MOST_BODY_S = 60.0
"""The longest that it gets so; servers wait no longer for it."""


class ClaimedJob(Protocol):
    """What a request about a job names: `lease` is a secret."""

    @property
    def run_id(self) -> str:
        """The run's id."""

    @property
    def attempt(self) -> int:
        """Its attempt."""

    @property
    def lease(self) -> str:
        """The lease of the claim that gave it."""


class Ask(NamedTuple):
    """One request. `target` is what its first line names, `secrets` what no message may show."""

    method: str
    target: str
    headers: Mapping[str, str]
    body: bytes | Upload | None
    patient: Patient
    stop: Stop | None
    secrets: tuple[str, ...]


def encode(body: Mapping[str, Any]) -> bytes:
    """A JSON body; what a worker wrote may hold NaN, which is no JSON and becomes null."""
    try:
        text = json.dumps(body, allow_nan=False)
    except ValueError:
        text = json.dumps(clean(body), allow_nan=False)
    return text.encode("ascii")


def headers_of_job(job: ClaimedJob | None) -> dict[str, str]:
    """Which attempt a request is about, and the proof that it is in this agent's hands."""
    if job is None:
        return {}
    return {protocol.ATTEMPT_HEADER: str(job.attempt), protocol.LEASE_HEADER: job.lease}


def headers_of_body(body: bytes | Upload | None) -> dict[str, str]:
    """Type, length and, for a file, digest."""
    if body is None:
        return {}
    if isinstance(body, Upload):
        described = {"Content-Length": str(body.n_bytes), protocol.DIGEST_HEADER: body.sha256}
        return {"Content-Type": "application/x-ndjson", **described}
    return {"Content-Type": "application/json", "Content-Length": str(len(body))}


def with_time_for_body(ask: Ask) -> Ask:
    """The same request, which waits the longer the more it has to send; a file has a pace alone."""
    if not isinstance(ask.body, bytes):
        return ask
    behind_s = min(len(ask.body) / SLOW_BYTES_PER_S, MOST_BODY_S)
    return ask._replace(patient=replace(ask.patient, behind_s=behind_s))
