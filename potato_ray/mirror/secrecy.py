"""Secrets in what an agent sends: taken out before any of it is written.

An honest agent has none there. One that logs its own requests, or a worker that prints its surroundings, may.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

HIDDEN = b"[hidden]"
_TOKEN = re.compile(rb"prt_[A-Za-z0-9_-]{20,}")
_NEEDLESS = re.compile(rb"(?<!\\)((?:\\\\)*)\\u00([2-7][0-9A-Fa-f])")
r"""The escape of a character that needs none, such as \u0061, behind any number of escaped backslashes.

No usual writer of JSON makes one.
"""
_A_SIGN_OF_ONE = re.compile(rb"\\u00[2-7]")
"""Looked for first: far quicker than they are, in texts that are full of other escapes."""


def without_secrets(data: bytes, secrets: Sequence[str]) -> bytes:
    """JSON without these texts, and without whatever looks like a token of ours, however it is escaped."""
    if _A_SIGN_OF_ONE.search(data):
        data = _NEEDLESS.sub(_plain, data)
    for secret in secrets:
        if secret:
            data = data.replace(secret.encode("utf-8", "surrogateescape"), HIDDEN)
    return _TOKEN.sub(HIDDEN, data)


def _plain(escape: re.Match[bytes]) -> bytes:
    """A letter, digit, `_` or `-`, of which secrets consist, as itself; every other escape as it is."""
    character = bytes([int(escape[2], 16)])
    return escape[1] + character if character.isalnum() or character in b"_-" else escape[0]
