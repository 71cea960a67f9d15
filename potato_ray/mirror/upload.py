"""Predictions on their way into a mirror: beside their place until they are whole and of the right digest."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path
from typing import BinaryIO

from potato_ray.errors import Conflict
from potato_ray.mirror.durable import sync_folder
from potato_ray.mirror.mirror import Mirror
from potato_ray.mirror.refusals import Malformed, TooLarge

_PREFIX = ".predictions."
_SUFFIX = ".part"


class Upload:
    """One upload of `n_bytes` with this sha256; begun while the mirror is held. Raises OSError.

    `write` and `finish` are to be called in threads; `discard` removes what has not been finished. A
    later upload of the same run ends this one.
    """

    def __init__(self, mirror: Mirror, n_bytes: int, sha256: str) -> None:
        self.mirror = mirror
        self._n_bytes = n_bytes
        self._sha256 = sha256
        self._hash = hashlib.sha256()
        self.taken = 0
        mirror.upload_number += 1
        self._number = mirror.upload_number
        # Not among the artifacts, which people are shown.
        folder = mirror.folder.path
        for left in folder.glob(f"{_PREFIX}*{_SUFFIX}"):
            left.unlink(missing_ok=True)
        descriptor, name = tempfile.mkstemp(_SUFFIX, _PREFIX, folder)
        self._part = Path(name)
        self._file: BinaryIO = os.fdopen(descriptor, "wb", buffering=0)

    def write(self, chunk: bytes) -> None:
        """Keep the next bytes, a sign of life. Raises TooLarge, Conflict (upload_replaced)."""
        self._require_newest()
        if self.taken + len(chunk) > self._n_bytes:
            raise TooLarge(
                "More predictions came than were announced.",
                evidence=f"Content-Length was {self._n_bytes} bytes.",
                next_step="Send as many bytes as Content-Length says.",
            )
        left = memoryview(chunk)
        while left:
            left = left[self._file.write(left) :]
        self._hash.update(chunk)
        self.taken += len(chunk)
        # On a slow line the agent's other requests wait behind these bytes.
        self.mirror.folder.beat()

    def finish(self) -> None:
        """Put them in their place, durably. While the mirror is held.

        Raises Malformed (digest_mismatch) for torn ones, Conflict (upload_replaced).
        """
        self._require_newest()
        if self.taken != self._n_bytes or self._hash.hexdigest() != self._sha256:
            raise Malformed(
                "The predictions are not those that were announced.",
                code="digest_mismatch",
                evidence=f"{self.taken} of {self._n_bytes} bytes came, with sha256 {self._hash.hexdigest()}.",
                next_step="Send them again, with the sha256 of the whole body.",
            )
        os.fsync(self._file.fileno())
        self._file.close()
        self.mirror.folder.artifacts.mkdir(exist_ok=True)
        self._part.replace(self.mirror.folder.predictions)
        sync_folder(self.mirror.folder.artifacts)

    def discard(self) -> None:
        """Remove what is not in its place; harmless afterwards."""
        self._file.close()
        self._part.unlink(missing_ok=True)

    def _require_newest(self) -> None:
        if self._number != self.mirror.upload_number:
            raise Conflict(
                "Another upload of these predictions has begun since.",
                code="upload_replaced",
                evidence="The later one counts.",
                next_step="Wait for its answer.",
            )
