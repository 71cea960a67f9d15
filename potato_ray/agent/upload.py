"""A file that is sent as the body of a request: its length and its digest are known before the first byte."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from types import TracebackType
from typing import Callable, Iterator

CHUNK_BYTES = 64 * 1024
_DIGEST_CHUNK_BYTES = 1024 * 1024


class Upload:
    """One file, held open by `with`, so that what is sent is what the digest was taken of.

    `on_sent` hears of the bytes sent and the bytes in all. Entering raises OSError.
    """

    def __init__(self, path: Path, on_sent: Callable[[int, int], None] | None = None) -> None:
        self._path = path
        self._on_sent = on_sent

    def __enter__(self) -> Upload:
        self._handle = self._path.open("rb")
        try:
            self.n_bytes = os.fstat(self._handle.fileno()).st_size
            self.sha256 = self._digest()
        except BaseException:
            self._handle.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._handle.close()

    def chunks(self) -> Iterator[bytes]:
        """The file from its beginning, `n_bytes` in all. Raises OSError when it has become shorter."""
        self._handle.seek(0)
        sent = 0
        while sent < self.n_bytes:
            chunk = self._handle.read(min(CHUNK_BYTES, self.n_bytes - sent))
            if not chunk:
                raise OSError(f"{self._path.name} became shorter while it was sent")
            yield chunk
            sent += len(chunk)
            if self._on_sent is not None:
                self._on_sent(sent, self.n_bytes)

    def _digest(self) -> str:
        digest = hashlib.sha256()
        left = self.n_bytes
        while left > 0:
            chunk = self._handle.read(min(_DIGEST_CHUNK_BYTES, left))
            if not chunk:
                break
            digest.update(chunk)
            left -= len(chunk)
        return digest.hexdigest()
