"""Fetching a file from a host in spite of a link that breaks off now and then."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from potato_ray.backends.artifact_copy import CopyFailed
from potato_ray.backends.host_files import HostFiles, Told
from potato_ray.ssh import SshFailed

TRIES: Final = 5
"""In a row that bring nothing new."""
RETRY_S: Final = 2.0
_AGAIN: Final = frozenset({"copy_broke_off", "copy_stalled"})


def fetch_at_last(
    files: HostFiles, path: str, told: Told, wait: Callable[[float], object] = time.sleep
) -> None:
    """Fetch a file, going on where the link broke off as long as that brings it forward.

    Raises as HostFiles.fetch does, and what `wait` raises, which is called between two tries.
    """
    left, most = TRIES, -1
    here = 0

    def heard(n_bytes: int, of_bytes: int) -> None:
        nonlocal here
        here = n_bytes
        told(n_bytes, of_bytes)

    while True:
        try:
            files.fetch(path, heard)
            return
        except (SshFailed, CopyFailed) as failure:
            if isinstance(failure, CopyFailed) and failure.code not in _AGAIN:
                raise
            if here > most:
                left, most = TRIES, here
            left -= 1
            if not left:
                raise
        wait(RETRY_S)
