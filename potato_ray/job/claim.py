"""A launcher's claim on a job folder: one folder serves one launch, whoever tries it a second time."""

from __future__ import annotations

import errno
import fcntl
import os
import socket
import sys
import time
from pathlib import Path
from typing import Sequence

from potato_ray.job.folder import Exit, JobFolder, Processes, ProcessId, read_json
from potato_ray.job.processes import identify
from potato_ray.job.signal_pipe import SignalPipe
from potato_ray.job.spec import JobSpec
from potato_ray.job.supervisor import Supervisor


class LaunchFailed(Exception):
    """No worker was started. `code` is bad_spec, already_launched or launch_failed."""

    def __init__(self, code: str, message: str, next_step: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.next_step = next_step


def read_spec(folder: JobFolder) -> JobSpec:
    """The folder's spec. Raises LaunchFailed (bad_spec)."""
    try:
        body = read_json(folder.spec)
        if body is None:
            raise ValueError(f"there is no {folder.spec.name}")
        return JobSpec.from_json(body)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as failure:
        raise LaunchFailed(
            "bad_spec",
            f"The job in {folder.path.name} cannot be read: {type(failure).__name__}: {failure}",
            "Start the run again; use the same version of this program on both sides.",
        ) from failure


class Claim:
    """Holds the folder's lock as long as this process lives; made before the worker starts."""

    def __init__(self, folder: JobFolder) -> None:
        """Raises LaunchFailed: bad_spec, or already_launched when the folder was used before."""
        self.folder = folder
        self.spec = read_spec(folder)
        self._lock = _lock(folder.lock)
        if folder.process.exists() or folder.exit.exists():
            os.close(self._lock)
            raise _already_launched("its process.json or exit.json is there")

    def release(self) -> None:
        """Give the folder back; nothing was started in it."""
        os.close(self._lock)

    def announce(self, worker: int, markers: Sequence[str]) -> ProcessId:
        """Write process.json for a worker that has just started; returns the launcher's identity."""
        launcher = _identity(os.getpid())
        self.started = time.monotonic()
        self.started_at = time.time()
        self.worker = worker
        processes = Processes(launcher, _identity(worker), self.started_at, tuple(markers), sys.executable)
        self.folder.write_processes(processes)
        return launcher

    def supervise(self, signals: SignalPipe) -> Exit:
        """Watch the announced worker to its end and write exit.json."""
        return Supervisor(
            self.folder, self.spec.limits, self.worker, signals, self.started, self.started_at
        ).run()


def open_logs(folder: JobFolder) -> tuple[int, int]:
    """Descriptors of stdout.log and stderr.log, to append to."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
    return os.open(str(folder.stdout), flags, 0o644), os.open(str(folder.stderr), flags, 0o644)


def _identity(pid: int) -> ProcessId:
    # A worker that is gone already still has an entry: its zombie, until the supervisor reaps it.
    return identify(pid) or ProcessId(pid, 0, socket.gethostname())


def _lock(path: Path) -> int:
    descriptor = os.open(str(path), os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as failure:
        if failure.errno in (errno.ENOLCK, errno.ENOTSUP):
            return descriptor  # a network file system without locks; process.json still tells
        os.close(descriptor)
        if isinstance(failure, BlockingIOError):
            raise _already_launched("a living launcher holds its lock") from failure
        raise
    return descriptor


def _already_launched(evidence: str) -> LaunchFailed:
    return LaunchFailed(
        "already_launched",
        f"This job folder has been launched already: {evidence}.",
        "Follow the job that runs there, or make a new folder for a new attempt.",
    )
