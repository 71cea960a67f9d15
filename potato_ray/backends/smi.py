"""Running nvidia-smi with a deadline that holds even when the driver hangs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

_ALSO_AT = "/usr/lib/wsl/lib"
"""Where Windows puts nvidia-smi into a Linux guest, outside of PATH."""

_REAP_TIMEOUT_S = 1.0


@dataclass(frozen=True)
class SmiAnswer:
    """What nvidia-smi said; `code` None: it gave no answer, and `text` says why."""

    code: int | None
    text: str
    installed: bool = True


RunSmi = Callable[[Sequence[str], float], SmiAnswer]
"""Run nvidia-smi with these arguments for at most that many seconds; never raises."""


def run_nvidia_smi(arguments: Sequence[str], timeout_s: float) -> SmiAnswer:
    """Run this machine's nvidia-smi."""
    program = shutil.which("nvidia-smi") or shutil.which("nvidia-smi", path=_ALSO_AT)
    if program is None:
        return SmiAnswer(None, "nvidia-smi was not found", installed=False)
    try:
        process = subprocess.Popen(
            [program, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "LC_ALL": "C"},
            start_new_session=True,
        )
    except OSError as error:
        return SmiAnswer(None, f"nvidia-smi could not be started: {error.strerror}")
    return _answer(process, timeout_s)


def _answer(process: subprocess.Popen[bytes], timeout_s: float) -> SmiAnswer:
    try:
        output, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        _abandon(process)
        return SmiAnswer(None, f"nvidia-smi did not answer within {timeout_s:g} s")
    return SmiAnswer(process.returncode, output.decode("utf-8", "replace"))


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill it, but never wait for it long: inside a hung driver it cannot be killed."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    if process.stdout is not None:
        process.stdout.close()
    try:
        process.wait(_REAP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        pass
