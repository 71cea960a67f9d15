"""Secrets in what an agent sends: taken out before any of it is written.

An honest agent has none there. One that logs its own requests, or a worker that prints its surroundings, may.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = b"[hidden]"
_TOKEN = re.compile(rb"prt_[A-Za-z0-9_-]{20,}")


def without_secrets(data: bytes, secrets: Sequence[str]) -> bytes:
    """`data` without these texts, and without whatever looks like a token of ours."""
    for secret in secrets:
        if secret:
            data = data.replace(secret.encode("utf-8", "surrogateescape"), HIDDEN)
    return _TOKEN.sub(HIDDEN, data)
