"""The headers of requests about a job: the attempt, and the lease that only its agent knows."""

from __future__ import annotations

import re

from starlette.types import Scope

from potato_ray.agent.protocol import ATTEMPT_HEADER, DIGEST_HEADER, LEASE_BYTES, LEASE_HEADER
from potato_ray.agent_tokens import digest_of
from potato_ray.mirror.mirror import Holder
from potato_ray.server.origins import header_values
from potato_ray.server.problems import Rejected

LEASE_FORM = re.compile(rf"[0-9a-f]{{{2 * LEASE_BYTES}}}")
_ATTEMPT = re.compile(r"[0-9]{1,9}")
_DIGEST = re.compile(r"[0-9a-f]{64}")


def holder_of(scope: Scope, lease: str) -> Holder:
    """Who the request says that it is from. Raises Rejected (400)."""
    return Holder(int(_one(scope, ATTEMPT_HEADER, _ATTEMPT, "a number")), digest_of(lease))


def lease_of(scope: Scope) -> str:
    """The lease that a request shows. Raises Rejected (400)."""
    return _one(scope, LEASE_HEADER, LEASE_FORM, f"{2 * LEASE_BYTES} hexadecimal digits in lower case")


def body_digest(scope: Scope) -> str:
    """The sha256 that the body is to have. Raises Rejected (400)."""
    return _one(scope, DIGEST_HEADER, _DIGEST, "64 hexadecimal digits in lower case")


def _one(scope: Scope, name: str, form: re.Pattern[str], what: str) -> str:
    sent = header_values(scope, name.lower())
    if len(sent) == 1 and form.fullmatch(sent[0]):
        return sent[0]
    # What was sent may be a secret in a wrong form, so it is not repeated.
    raise Rejected(
        400,
        f"The header {name} is missing or is not {what}.",
        code="malformed_request",
        next_step="Send it with each request about a job; docs/agent-protocol.md has the headers.",
    )
