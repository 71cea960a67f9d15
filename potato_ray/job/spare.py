"""A spare worker, as its owner and its users see it: started ahead, used once.

The spare is a launcher with a worker that has imported the trainers' libraries. It listens at a unix
socket, takes one job that fits, and is an ordinary detached launcher from then on. While it has none
it ends with its owner.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

from potato_ray.job import start
from potato_ray.job.claim import LaunchFailed, read_spec
from potato_ray.job.environment import (
    LATE_VARIABLES,
    general_environment,
    inherited,
    start_key,
    worker_environment,
)
from potato_ray.job.folder import JobFolder, ProcessId, read_json, write_json

ADDRESS_FILE = "spare.json"
DEFAULT_TRAINERS = ("sklearn-text",)
TAKE_TIMEOUT_S = 5.0
_READY = b"r"


def take_spare(address: Path, folder: JobFolder, python: str = sys.executable) -> ProcessId | None:
    """Give the job in `folder` to the spare worker at `address`; the launcher's identity, or None.

    None: there is no spare, or it does not fit; start cold then. Any process of the same user may ask.
    """
    try:
        spec = read_spec(folder)
        environment = worker_environment(inherited(os.environ), spec)
        request = {
            "job": str(folder.path.resolve()),
            "key": start_key(python, start.code_root(start.__file__), environment),
            "late": {name: environment.get(name) for name in sorted(LATE_VARIABLES)},
        }
        answer = _ask(address, request)
        return ProcessId(**answer["launcher"]) if answer.get("ok") else None
    except (OSError, ValueError, KeyError, TypeError, LaunchFailed):
        return None


def _ask(address: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TAKE_TIMEOUT_S)
        connection.connect(str(address))
        connection.sendall(json.dumps(request).encode("ascii") + b"\n")
        with connection.makefile("rb") as answer:
            body = json.loads(answer.readline())
    return body if isinstance(body, dict) else {}


def spare_address(state_dir: Path) -> Path | None:
    """Where the keeper of this state folder has its spare listen; None when it keeps none."""
    try:
        body = read_json(state_dir / ADDRESS_FILE)
    except (OSError, ValueError):
        return None
    return Path(str(body["address"])) if body is not None and "address" in body else None


class SpareKeeper:
    """Keeps one spare worker ready. Its owner's death ends a spare that has no job yet.

    `state_dir`: where other processes of the project find the spare's address (`spare_address`).
    `trainers`: whose libraries (Trainer.preload) are imported ahead. `num_threads` and `env` must be
    those of the jobs to come, or the spare will not fit them. Safe to use from several threads.
    """

    def __init__(
        self,
        state_dir: Path,
        trainers: Sequence[str] = DEFAULT_TRAINERS,
        python: str = sys.executable,
        num_threads: int | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self.state_dir = state_dir
        self.trainers = tuple(trainers)
        self.python = python
        self.num_threads = num_threads
        self.env = dict(env or {})
        self._directory = Path(tempfile.mkdtemp(prefix="spare-", dir=_short_directory()))
        self.address = self._directory / "socket"
        self._line: socket.socket | None = None
        self._ready = False
        self._lock = threading.RLock()
        write_json(state_dir / ADDRESS_FILE, {"address": str(self.address)})

    def ensure(self) -> None:
        """Start a spare unless one waits already or is starting. Raises OSError when it can't."""
        with self._lock:
            if not self._is_there():
                self._line = self._start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until the spare has loaded everything; False when it did not within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while self._is_there() and not self._ready and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._is_there() and self._ready

    def take(self, folder: JobFolder | Path) -> ProcessId | None:
        """Give a job to the spare; None when there is none or it does not fit: start cold then."""
        folder = folder if isinstance(folder, JobFolder) else JobFolder(folder)
        with self._lock:
            return take_spare(self.address, folder, self.python) if self._is_there() else None

    def close(self) -> None:
        """Let an unused spare end; one that has a job goes on."""
        with self._lock:
            self._forget()
            shutil.rmtree(str(self._directory), ignore_errors=True)
            try:
                (self.state_dir / ADDRESS_FILE).unlink()
            except OSError:
                pass

    def _start(self) -> socket.socket:
        """Start a spare; returns this side's end of the line to it."""
        mine, theirs = socket.socketpair()
        try:
            self._start_process(theirs)
            mine.sendall(json.dumps(self._instructions()).encode("ascii") + b"\n")
        except BaseException:
            mine.close()
            raise
        finally:
            theirs.close()
        return mine

    def _start_process(self, theirs: socket.socket) -> None:
        command = start.command(self.python, "spare_launcher", bare=True)
        with subprocess.Popen(
            command,
            stdin=theirs.fileno(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=inherited(os.environ),
            cwd="/",
            start_new_session=True,
        ):
            pass  # its first process ends at once; the detached one is not our child

    def _instructions(self) -> dict[str, Any]:
        environment = general_environment(inherited(os.environ), self.num_threads, self.env)
        return {
            "address": str(self.address),
            "key": start_key(self.python, start.code_root(start.__file__), environment),
            "environment": environment,
            "trainers": list(self.trainers),
        }

    def _is_there(self) -> bool:
        """Whether the spare still waits: it closes its line when it takes a job or ends."""
        with self._lock:
            if self._line is None:
                return False
            try:
                said = self._line.recv(16, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return True
            except OSError:
                said = b""
            self._ready = self._ready or said == _READY
            if not said:
                self._forget()
            return bool(said)

    def _forget(self) -> None:
        if self._line is not None:
            self._line.close()
        self._line = None
        self._ready = False


def _short_directory() -> str:
    # A unix socket's path may have 107 bytes (103 on macOS).
    directory = tempfile.gettempdir()
    return directory if len(os.fsencode(directory)) <= 60 else "/tmp"  # noqa: S108 - mkdtemp makes it safe
