"""What the ssh of this machine can be told."""

from __future__ import annotations

import functools
import re
import subprocess

TIMEOUT_S = 10.0
_SINCE_FORK_SETTING = (8, 7)


@functools.lru_cache(maxsize=8)
def options_of_its_version(ssh: str) -> tuple[str, ...]:
    """Settings that keep a master as it should be, and that an older ssh would take for a mistake."""
    if _version(ssh) < _SINCE_FORK_SETTING:
        return ()
    return ("-o", "ForkAfterAuthentication=no")


def _version(ssh: str) -> tuple[int, int]:
    """The version of OpenSSH, (0, 0) where it does not say one."""
    try:
        done = subprocess.run(
            [ssh, "-V"], stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return (0, 0)
    found = re.search(rb"OpenSSH_(\d+)\.(\d+)", done.stdout + done.stderr)
    return (int(found[1]), int(found[2])) if found else (0, 0)
