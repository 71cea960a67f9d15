"""What agent and server say to each other, docs/agent-protocol.md: one place for names and limits.

    claim ─▶ job (or 204 after a long poll) ─▶ code, bundle ─▶ progress … ─▶ predictions ─▶ result

Every request carries the protocol's version and the token; every request about a job carries its attempt
and its lease, a secret that the agent made up for the claim. A request may be sent again at any time.
"""

from __future__ import annotations

VERSION = 1

VERSION_HEADER = "Potato-Ray-Protocol"
ATTEMPT_HEADER = "Potato-Ray-Attempt"
LEASE_HEADER = "Potato-Ray-Lease"
DIGEST_HEADER = "Potato-Ray-Sha256"
"""Of a body that is streamed: its sha256 in hex, so that a torn one is never taken for whole."""

PREFIX = "/api/training"
CLAIM = PREFIX + "/jobs/claim"
PYZ = PREFIX + "/agent.pyz"


def code_path(digest: str) -> str:
    """Where the trainers' code lies, a tar.gz by its sha256."""
    return PREFIX + "/code/" + digest


def job_path(run_id: str, what: str) -> str:
    """Where a job's `bundle`, `progress`, `predictions` or `result` goes."""
    return f"{PREFIX}/jobs/{run_id}/{what}"


MAX_WAIT_S = 50
"""The longest long poll; below the minute after which proxies give up."""
LEASE_BYTES = 16
"""Random bytes of a lease; it is sent in hex."""
DOWNLOAD_REQUESTS = 5
"""In how many requests a bundle may come."""
MAX_EVENTS = 1000
"""Events in one progress request."""
MAX_PROGRESS_BYTES = 4 * 1024 * 1024
"""Of one progress request; the agent sends fewer events at a time instead."""
PROGRESS_EVERY_S = 1.0
"""While a worker lives, there is a progress request at least this often, with or without events."""

# Codes in problem answers that an agent acts upon.
STALE = "stale_attempt"
"""409: the run has ended, or another attempt or agent has it. Stop the worker, clear up, claim again."""
GAP = "events_missing"
"""409: events before these have not arrived; `next_seq` says from where to send."""
UNKNOWN_RUN = "unknown_run"
"""404: the run's record is gone. Stop the worker, clear up, claim again. No other 404 says that."""
TRAINING_DISABLED = "training_disabled"
"""404: the project does not train at present, or its server has just come up. Try again."""
OTHER_BACKEND = "other_backend"
"""409 on a claim: the token is that of another backend than `backend` of the claim. Stop."""
TOO_SLOW = "body_too_slow"
"""408: the body took too long. Send less at a time."""
UNKNOWN_PROTOCOL = "unknown_protocol"
"""400: `evidence` names both versions."""
