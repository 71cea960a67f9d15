"""A login that another process keeps (SharedLogin): what one of its users has of it."""

from __future__ import annotations

import contextlib
import copy
import hashlib
import os
import shutil
import socket
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from potato_ray.ssh.deadline import Deadline
from potato_ray.ssh.destination import Destination
from potato_ray.ssh.failures import SshFailed, could_not_start, failed
from potato_ray.ssh.login import Login, ended_here, find_ssh
from potato_ray.ssh.shared_login import connect, use

CANCEL_TIMEOUT_S: Final = 5.0
LEFT: Final = 255
"""The exit code of an order that was not given, since the login was left before; as ssh's own failure."""
_STEP_S: Final = 0.02
_GREETING_BYTES: Final = 4096

Why = Callable[[str], "SshFailed | None"]
"""Asks the keeper of the login at a control path why it has ended."""


class JoinedLogin(Login):
    """For any thread. Raises SshFailed where the login at `control_path` has ended, or is about to.

    `folder` lies in the login's own, so it goes with the login if not before.
    """

    is_shared = True

    def __init__(self, destination: Destination, control_path: str, why: Why) -> None:
        ssh = find_ssh(destination.host)
        place = Path(control_path).parent
        with contextlib.ExitStack() as undone:
            try:
                self._use = use(place)
                undone.callback(os.close, self._use)
                self._line = undone.enter_context(connect(control_path))
                folder = Path(tempfile.mkdtemp(prefix="r", dir=place))
            except OSError as error:
                raise _not_joined(destination.host, error) from error
            self._leave = undone.pop_all()
        self._line.setblocking(False)
        super().__init__(destination, ssh, control_path, folder)
        self._why = why
        self._words: SshFailed | None = None
        self._ended = self._closed = False
        self._forwards: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_alive(self) -> bool:
        """Whether ssh still runs: it would end what connects us to its control socket."""
        with self._lock:
            self._ended = self._ended or _has_ended(self._line)
            return not self._ended

    def lost(self, wait_s: float = 0.0) -> SshFailed | None:
        deadline = Deadline(wait_s)
        while self.is_alive:
            if deadline.passed:
                return None
            time.sleep(_STEP_S)
        if self._words is None:
            told = None if self._closed else self._why(self.control_path)
            self._words = told or ended_here(self.destination.host, "(nothing; whoever kept it has gone)")
        return copy.copy(self._words)

    def forward(self, wanted: str, timeout_s: float) -> tuple[int, str]:
        """As any login's. Takes the socket over there from whoever had it forwarded through this login.

        ssh would go on leading all that comes there to the first that asked, and he may have died.
        """
        with self._lock:
            if self._closed:  # nobody would end it
                return LEFT, ""
            self._forwards.add(wanted)
        note = self._note(wanted)
        try:
            before = note.read_text() if note.exists() else ""
            note.write_text(wanted)
        except OSError as error:
            raise self.lost() or could_not_start(self.destination.host, error) from error
        if before not in ("", wanted):
            super().cancel(before, timeout_s)
        told = super().forward(wanted, timeout_s)
        return self._end_late(wanted, timeout_s) if self._has_left else told

    def cancel(self, wanted: str, timeout_s: float) -> tuple[int, str]:
        self._forwards.discard(wanted)
        if self._holder(wanted) != wanted:
            return 0, ""
        told = super().cancel(wanted, timeout_s)
        self._note(wanted).unlink(missing_ok=True)
        return told

    def close(self) -> None:
        """Leave the login: end what is ours of it, and nothing else."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
        for process in list(self._orders):
            process.kill()
        self._end_forwards()
        with self._lock:
            self._ended = True
            self._leave.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    @property
    def _has_left(self) -> bool:
        return self._closed

    def _end_late(self, wanted: str, timeout_s: float) -> tuple[int, str]:
        """End a forward that came to be after `close` had ended those that it found."""
        if self._holder(wanted) in ("", wanted):
            super().cancel(wanted, timeout_s)
            self._note(wanted).unlink(missing_ok=True)
        return LEFT, ""

    def _end_forwards(self) -> None:
        for wanted in list(self._forwards):
            if self.is_alive:
                with contextlib.suppress(SshFailed, OSError):
                    self.cancel(wanted, CANCEL_TIMEOUT_S)

    def _holder(self, wanted: str) -> str:
        """The forward that has the socket over there now; "" for none."""
        try:
            return self._note(wanted).read_text()
        except OSError:
            return ""

    def _note(self, wanted: str) -> Path:
        """Where it is noted who has a socket over there forwarded: the path of ours that it leads to."""
        remote = wanted.partition(":")[0]
        return Path(self.control_path).parent / f"f{hashlib.sha256(remote.encode()).hexdigest()[:16]}"


def _has_ended(line: socket.socket) -> bool:
    """Whether ssh has gone; it greets who connects, and says no more to one who says nothing."""
    try:
        while line.recv(_GREETING_BYTES):
            pass
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True


def _not_joined(host: str, error: OSError) -> SshFailed:
    return failed(
        host,
        "The login that its runs share has just ended",
        f"(nothing; the system says: {error.strerror or error})",
        "It is made again by the next try.",
    )
