"""A `python -m potato_ray.agent` process, or agent.pyz under another Python, and what it has started."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from potato_ray.job import processes

DEADLINE_S = 60.0
# Every process of ours hands variables of the locale on, the detached ones too.
MARK = "LC_POTATO_RAY_AGENT_TEST"
# A background job of a shell ignores SIGINT, nohup SIGHUP; the agent, which inherits that, rightly too.
WITH_ALL_SIGNALS = """
import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
os.execvp(sys.argv[1], sys.argv[1:])
"""


class AgentProcess:
    """Started by its making; `said` is what it has written to stderr."""

    def __init__(
        self,
        server: str,
        token: str,
        workdir: Path,
        *arguments: str,
        backend: str = "ws",
        program: Sequence[str] = (sys.executable, "-m", "potato_ray.agent"),
        inside: Sequence[str] = (),
    ) -> None:
        self.mark = f"{MARK}={secrets.token_hex(8)}"
        self.workdir = workdir
        self._errors = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - lives as long as this
        options = ["--server", server, "--backend", backend, "--workdir", str(workdir), *arguments]
        environment = {**os.environ, **dict([self.mark.split("=")]), "POTATO_TRAINING_TOKEN": token}
        self.process = subprocess.Popen(
            [*inside, sys.executable, "-I", "-S", "-c", WITH_ALL_SIGNALS, *program, *options],
            cwd="/",
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=self._errors,
            start_new_session=True,
        )

    @property
    def said(self) -> str:
        self._errors.seek(0)
        return self._errors.read()

    def wait_until(self, true: Callable[[], bool], within_s: float = DEADLINE_S) -> None:
        """Wait until something is true; fails at the deadline."""
        deadline = time.monotonic() + within_s
        while not true():
            assert time.monotonic() < deadline, f"it did not come to that in time: {self.said}"
            time.sleep(0.05)

    def left(self) -> list[int]:
        """Every process that it has started and that lives, the detached ones included."""
        return processes.marked([self.mark])

    def end(self, number: int) -> int:
        """Send a signal and wait for the end; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(timeout=DEADLINE_S)

    def kill(self) -> None:
        """kill -9, of the agent alone."""
        self.process.kill()
        self.process.wait(timeout=DEADLINE_S)

    def close(self) -> None:
        """Kill what is left of it."""
        if self.process.poll() is None:
            self.kill()
        processes.end_marked([self.mark], patience_s=5.0)
        self._errors.close()
