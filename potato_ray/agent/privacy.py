"""Keeping what this process knows from others of the same user: its workers run code that came from afar."""

from __future__ import annotations

import sys

_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Close /proc/PID/environ and the memory of this process to all but root. Linux only; never fails.

    The token was in the environment that this process was started with, and that stays readable there.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        pass  # a Python without libffi, a libc without prctl
