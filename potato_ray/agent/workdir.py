"""The agent's folder: one agent at a time, and what outlives it.

WORKDIR/agent.lock   held by the agent as long as it lives; names its pid
WORKDIR/claim.json   the lease of the claim that is under way; mode 0600
WORKDIR/code/        trainers' code by its sha256
WORKDIR/jobs/        jobs in hand, and what is kept of those before (held_job.py)
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import time
from pathlib import Path

from potato_ray.agent.errors import AgentMisconfigured
from potato_ray.agent.held_job import remove
from potato_ray.agent.protocol import LEASE_BYTES
from potato_ray.job.folder import read_json, write_json

TAKE_S = 2.0
"""For the last of an agent that has just ended: what it was starting has its lock until exec closes it."""
_LOOK_EVERY_S = 0.05


class Workdir:
    """Made, and taken for this process. Raises AgentMisconfigured when it cannot be used."""

    def __init__(self, path: Path) -> None:
        self.path = path.expanduser().absolute()
        try:
            for folder in (self.path, self.jobs, self.code):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock = self._take()
        except OSError as failure:
            raise _unusable(self.path, failure) from failure

    @property
    def jobs(self) -> Path:
        return self.path / "jobs"

    @property
    def code(self) -> Path:
        return self.path / "code"

    def release(self) -> None:
        """Let another agent have it; so does the end of the process."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def lease_for(self, server: str, backend: str) -> str:
        """The lease to claim with. Raises OSError.

        It is on disk before the claim: a job that the server gives to an agent that dies at that very
        moment is given to the next agent here.
        """
        path = self.path / "claim.json"
        try:
            body = read_json(path) or {}
        except ValueError:
            body = {}
        lease = body.get("lease")
        if (
            isinstance(lease, str)
            and lease
            and (body.get("server"), body.get("backend")) == (server, backend)
        ):
            return lease
        lease = secrets.token_hex(LEASE_BYTES)
        self.note_lease(server, backend, lease)
        return lease

    def note_lease(self, server: str, backend: str, lease: str) -> None:
        """The next claim for that backend is made with this lease. Raises OSError."""
        write_json(self.path / "claim.json", {"server": server, "backend": backend, "lease": lease})

    def forget_lease(self) -> None:
        """The next claim is for another job. Raises OSError."""
        remove(self.path / "claim.json")

    def _take(self) -> int:
        descriptor = os.open(str(self.path / "agent.lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(descriptor)
        except BlockingIOError:
            pid = os.read(descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(descriptor)
            raise _in_use(self.path, pid) from None
        except OSError as failure:
            if failure.errno not in (errno.ENOLCK, errno.ENOTSUP):
                os.close(descriptor)
                raise
            # A network file system without locks: nothing can keep a second agent away.
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode("ascii"), 0)
        return descriptor


def _lock(descriptor: int) -> None:
    """Raises BlockingIOError where another process keeps it for TAKE_S, OSError."""
    ends_at = time.monotonic() + TAKE_S
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= ends_at:
                raise
        time.sleep(_LOOK_EVERY_S)


def _in_use(path: Path, pid: str) -> AgentMisconfigured:
    return AgentMisconfigured(
        f"Another agent, process {pid}, works in {path}.",
        code="workdir_in_use",
        next_step="Stop it, or give this one a folder of its own with --workdir.",
    )


def _unusable(path: Path, failure: OSError) -> AgentMisconfigured:
    return AgentMisconfigured(
        f"The agent's folder {path} cannot be used: {failure.strerror or type(failure).__name__}.",
        code="workdir_unusable",
        next_step="Make it writable for you, or name another with --workdir.",
    )
