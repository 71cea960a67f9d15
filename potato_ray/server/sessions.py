"""The sessions of browsers: who gave the admin key once, and for how long that holds.

The browser keeps a random token. The server keeps only its HMAC-SHA256 under the admin key: nothing
that is stored opens a session, and another admin key ends them all.
"""

from __future__ import annotations

import hashlib
import hmac
import logging
import secrets
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from potato_ray.job.folder import read_json
from potato_ray.lock import private_folder, write_private

logger = logging.getLogger(__name__)

FILE_NAME = "sessions.json"
LIFETIME_S = 12 * 3600
LIMIT = 100
"""The most sessions at a time; one more ends the oldest."""


class Sessions:
    """The sessions of one server, kept in `<state_dir>/sessions.json` (0600) over its restarts.

    Safe to use in threads; `holds` never waits for the disk. `clock` gives epoch seconds.
    """

    def __init__(self, state_dir: Path, key: str, clock: Callable[[], float] = time.time) -> None:
        self._path = state_dir / FILE_NAME
        self._key = key.encode("utf-8", "surrogateescape")
        self._clock = clock
        self._writing = threading.Lock()
        # Replaced as a whole, never changed: readers need no lock.
        self._ends: Mapping[str, float] = self._alive(_stored(self._path))

    def open(self) -> str:
        """A new session's token. It holds in memory even where it can't be stored."""
        token = secrets.token_urlsafe(32)
        with self._writing:
            ends = {**self._alive(self._ends), self._digest(token): self._clock() + LIFETIME_S}
            oldest_first = sorted(ends, key=ends.__getitem__)
            self._replace({digest: ends[digest] for digest in oldest_first[-LIMIT:]})
        return token

    def holds(self, token: str) -> bool:
        """Whether `token` is that of a session that has not ended."""
        return self._ends.get(self._digest(token), 0.0) > self._clock()

    def end(self, token: str) -> None:
        """End a session; one that is unknown is none already."""
        digest = self._digest(token)
        with self._writing:
            if digest in self._ends:
                self._replace({each: end for each, end in self._ends.items() if each != digest})

    def __len__(self) -> int:
        return len(self._ends)

    def _digest(self, token: str) -> str:
        return hmac.new(self._key, token.encode("utf-8", "surrogatepass"), hashlib.sha256).hexdigest()

    def _alive(self, ends: Mapping[str, float]) -> dict[str, float]:
        now = self._clock()
        return {digest: end for digest, end in ends.items() if now < end}

    def _replace(self, ends: Mapping[str, float]) -> None:
        self._ends = ends
        try:
            private_folder(self._path.parent)
            write_private(self._path, {"sessions": dict(ends)})
        except OSError as failure:
            logger.warning(
                "%s cannot be written (%s): a restart of the server will log everybody out.",
                FILE_NAME,
                failure.strerror or failure,
            )


def _stored(path: Path) -> dict[str, float]:
    """What an earlier server kept; nothing where the file is missing or damaged."""
    try:
        kept = (read_json(path) or {}).get("sessions", {})
        return {str(digest): float(end) for digest, end in kept.items()}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError):
        logger.warning("%s cannot be read: everybody has to log in again.", FILE_NAME)
        return {}
