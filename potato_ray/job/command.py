"""Running a command with a deadline that holds even when it hangs in a driver and cannot be killed."""

from __future__ import annotations

import os
import signal
import subprocess
from dataclasses import dataclass
from typing import Sequence

_REAP_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class Answer:
    """Exit code and output of a command; `code` None: there is none, and `text` says why."""

    code: int | None
    text: str


def run_command(arguments: Sequence[str], timeout_s: float, *, with_errors: bool = True) -> Answer:
    """Run a command; never raises for what the command does.

    Its stderr is among the output, or passed over where `with_errors` is False.
    """
    name = os.path.basename(arguments[0])  # noqa: PTH119 - an argument, not a file of ours
    try:
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if with_errors else subprocess.DEVNULL,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        return Answer(None, f"{name} could not be started: {error.strerror}")
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _abandon(process)
        return Answer(None, f"{name} did not answer within {timeout_s:g} s")
    return Answer(process.returncode, output.decode("utf-8", "replace"))


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
