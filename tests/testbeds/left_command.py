"""A `training run` without a server, which a signal to its process group ends while its run is at work."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from server_process import PROGRAM
from sshd import Sshd
from whole_runs import reader_of, wait_until

from potato_ray.config import ProjectConfig
from potato_ray.registry.runs import Run

DEADLINE_S = 60.0


def eventually(happened: Callable[[], bool]) -> bool:
    ends_at = time.monotonic() + DEADLINE_S
    while not happened():
        if time.monotonic() > ends_at:
            return False
        time.sleep(0.05)
    return True


@contextlib.contextmanager
def at_work(
    config: ProjectConfig, backend: str, true_of: Callable[[Run], bool], act: str = "wait"
) -> Iterator[str]:
    """A rehearsal that waits on a backend, until something is true of its run; the run's id.

    Its command has been ended by the end of the `with` block.
    """
    what = ("--trainer", "rehearsal", "--schema", "sentiment", "--backend", backend, "--param", f"act={act}")
    command = [sys.executable, "-c", PROGRAM, "training", "run", str(config.path), *what]
    before = {run.run_id for run in reader_of(config).runs()}
    with subprocess.Popen(command, cwd="/", stderr=subprocess.PIPE, start_new_session=True) as process:
        try:
            assert eventually(lambda: len(reader_of(config).runs()) > len(before))
            [run_id] = {run.run_id for run in reader_of(config).runs()} - before
            wait_until(config, run_id, true_of)
            yield run_id
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            process.communicate(timeout=DEADLINE_S)


def left(config: ProjectConfig, backend: str, true_of: Callable[[Run], bool], act: str = "wait") -> str:
    """The id of a run that goes on by itself, with nobody at work on its project."""
    with at_work(config, backend, true_of, act) as run_id:
        pass
    assert not reader_of(config).run(run_id).ended
    return run_id


def login_to(sshd: Sshd) -> tuple[int, Path]:
    """The ssh that stays logged in there, and the folder of its control socket."""
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_text().split("\0")
            if words[0].endswith("/ssh") and "-M" in words and f"{sshd.folder}/ssh_config" in words:
                [control] = [word for word in words if word.startswith("ControlPath=")]
                return int(path.parent.name), Path(control.partition("=")[2]).parent
    raise AssertionError("nobody is logged in")
