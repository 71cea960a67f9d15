"""Running a command with a deadline that holds even when it hangs in a driver and cannot be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from typing import NamedTuple, Sequence

_REAP_TIMEOUT_S = 1.0


class Said(NamedTuple):
    """Exit code and stdout of a command; `code` None: there is none, and `text` says why."""

    code: int | None
    text: str


def run_command(arguments: Sequence[str], timeout_s: float) -> Said:
    """Run a command; never raises for what the command does. Its stderr is passed over."""
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as failure:
        return Said(None, f"it could not be started: {failure.strerror}")
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _abandon(process)
        return Said(None, f"it did not answer within {timeout_s:g} s")
    return Said(process.returncode, output.decode("utf-8", "replace"))


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started, but never wait for it long."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(_REAP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pass
