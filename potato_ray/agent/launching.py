"""Starting a job's launcher from the code that came with the job, by the worker's interpreter."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from potato_ray.agent.held_job import Failure
from potato_ray.job.environment import inherited
from potato_ray.job.events import EXIT_BAD_SPEC
from potato_ray.job.folder import JobFolder

TAIL_CHARS = 2000
OTHER_LAUNCHER_S = 20.0


class NotLaunched(Exception):
    """No worker was started; `failure` is what the server will be told."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


def launch(folder: JobFolder, code: Path, python: str, timeout_s: float) -> None:
    """Start the launcher, which detaches itself; returns once its worker runs. Raises NotLaunched.

    The agent's token is in no way handed on: the environment is an allow-list. A folder that was launched
    already, by an agent that was killed meanwhile, is no failure.
    """
    script = code / "potato_ray" / "job" / "start.py"
    command = [python, "-S", "-E", str(script), "launcher", str(folder.path.resolve())]
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=inherited(os.environ),
            cwd="/",
            start_new_session=True,
            timeout=timeout_s,
            check=False,
        )
    except OSError as failure:
        raise _no_interpreter(python, failure) from failure
    except subprocess.TimeoutExpired:
        raise _too_late(folder, timeout_s) from None
    said = done.stderr.decode("utf-8", "replace")
    if done.returncode != 0 and not _runs_already(folder, said):
        raise _refused(folder, done.returncode, said, python)


def _runs_already(folder: JobFolder, said: str) -> bool:
    """Whether the launcher of an agent before this one has the folder, or is about to."""
    deadline = time.monotonic() + (OTHER_LAUNCHER_S if "launched already" in said else 0.0)
    while folder.read_processes() is None:
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.02)
    return True


def _no_interpreter(python: str, failure: OSError) -> NotLaunched:
    why = failure.strerror or type(failure).__name__
    return NotLaunched(
        Failure(
            "backend_failed",
            f"The worker's interpreter {python} could not be started: {why}.",
            "Start the agent with --python and an interpreter that is there.",
        )
    )


def _too_late(folder: JobFolder, timeout_s: float) -> NotLaunched:
    folder.request_cancel("its agent gave up waiting for the launcher", 0.0)
    return NotLaunched(
        Failure(
            "backend_failed",
            f"No worker started within {timeout_s:.0f} s. {_tail(folder)}".strip(),
            "Look at the machine's load and disk, then start the run again.",
        )
    )


def _refused(folder: JobFolder, code: int, said: str, python: str) -> NotLaunched:
    words = said.strip()[-TAIL_CHARS:] or _tail(folder) or f"{python} ended with code {code}."
    bad = code == EXIT_BAD_SPEC and "cannot be read" in words
    advice = (
        "Look whether --python of the agent is a Python 3.8 or later that works, and start the run again."
    )
    return NotLaunched(
        Failure(
            "bad_spec" if bad else "backend_failed",
            f"The launcher did not start: {words}",
            "Start the run again; use the same version of this program on both sides." if bad else advice,
        )
    )


def _tail(folder: JobFolder) -> str:
    try:
        return folder.launcher_log.read_text("utf-8", "replace")[-TAIL_CHARS:].strip()
    except OSError:
        return ""
