"""A spare worker, as its owner and its users see it: started ahead, used once.

The spare is a launcher with a worker that has imported the trainers' libraries. It listens at a unix
socket, takes one job that fits, and is an ordinary detached launcher from then on. While it has none
it ends with its owner.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

from potato_ray.job import child, start
from potato_ray.job.claim import LaunchFailed, read_spec
from potato_ray.job.environment import (
    LATE_VARIABLES,
    general_environment,
    inherited,
    start_key,
    worker_environment,
)
from potato_ray.job.folder import JobFolder, ProcessId

LOG_FILE = "spare.log"
DEFAULT_TRAINERS = ("sklearn-text",)
TAKE_TIMEOUT_S = 5.0
_READY = b"r"
_PREFIX = "spare-"
_NOTE = "spare.where"
"""In the state folder: where the last spare listens, or did, behind earlier ones that may still do."""


def take_spare(
    address: Path, folder: JobFolder, python: str = sys.executable, script: str = start.__file__
) -> ProcessId | None:
    """Give the job in `folder` to the spare worker at `address`; the launcher's identity, or None.

    None: there is no spare, or it does not fit; start cold then. Any process of the same user may ask.
    `script` is the start.py of the code that the job runs with.
    """
    try:
        spec = read_spec(folder)
        environment = worker_environment(inherited(os.environ), spec)
        request = {
            "job": str(folder.path.resolve()),
            "key": start_key(python, start.code_root(script), environment),
            "late": {name: environment.get(name) for name in sorted(LATE_VARIABLES)},
        }
        answer = _ask(address, request)
        return ProcessId.from_json(answer["launcher"]) if answer.get("ok") else None
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


class SpareKeeper:
    """Keeps one spare worker ready. Its owner's death ends a spare that has no job yet.

    `address` is where the present spare listens (take_spare), None while there is none. What a spare
    has to complain of goes to `state_dir`/spare.log. `trainers`: whose libraries (Trainer.preload) are
    imported ahead. `num_threads` and `env` must be those of the jobs to come, or the spare will not fit
    them, and so must `script`, the start.py of their code. Safe to use from several threads.
    """

    def __init__(
        self,
        state_dir: Path,
        trainers: Sequence[str] = DEFAULT_TRAINERS,
        python: str = sys.executable,
        num_threads: int | None = None,
        env: Mapping[str, str] | None = None,
        script: str = start.__file__,
    ) -> None:
        self.state_dir = state_dir
        self.trainers = tuple(trainers)
        self.python = python
        self.num_threads = num_threads
        self.env = dict(env or {})
        self.script = script
        self.address: Path | None = None
        self._line: socket.socket | None = None
        self._ready = False
        self._lock = threading.RLock()

    def ensure(self) -> None:
        """Start a spare unless one waits already or is starting. Raises OSError when it can't."""
        with self._lock:
            if not self._is_there():
                self._start()

    def wait_ready(self, timeout_s: float) -> bool:
        """Wait until the spare has loaded everything; False when it did not within `timeout_s`."""
        deadline = time.monotonic() + timeout_s
        while self._is_there() and not self._ready and time.monotonic() < deadline:
            time.sleep(0.01)
        return self._is_there() and self._ready

    def take(self, folder: JobFolder | Path, listens_within_s: float = 0.0) -> ProcessId | None:
        """Give a job to the spare; None when there is none or it does not fit: start cold then.

        One that was started a moment ago may take `listens_within_s` to listen; the job waits for what it
        still loads.
        """
        folder = folder if isinstance(folder, JobFolder) else JobFolder(folder)
        address = self._listening(listens_within_s)
        return take_spare(address, folder, self.python, self.script) if address is not None else None

    def _listening(self, within_s: float) -> Path | None:
        """Where the spare listens; None where it does not, or there is none."""
        deadline = time.monotonic() + within_s
        while self._is_there():
            address = self.address
            if address is not None and (address.exists() or time.monotonic() >= deadline):
                return address
            time.sleep(0.002)
        return None

    def close(self) -> None:
        """Let an unused spare end; one that has a job goes on."""
        with self._lock:
            self._forget()

    def _start(self) -> None:
        # The spare removes this folder when it takes a job or ends. It is noted before it is there: whoever
        # is killed in between leaves none that nobody knows of.
        folder = Path(_short_directory()) / f"{_PREFIX}{secrets.token_hex(4)}"
        address = folder / "socket"
        (self.state_dir / _NOTE).write_text("\n".join(map(str, [*sweep(self.state_dir), address])), "utf-8")
        folder.mkdir(0o700)
        mine, theirs = socket.socketpair()
        try:
            # Sent ahead: should this process die now, the spare still knows which folder to remove.
            mine.settimeout(TAKE_TIMEOUT_S)
            mine.sendall(json.dumps(self._instructions(address)).encode("ascii") + b"\n")
            mine.settimeout(None)
            self._start_process(theirs)
        except BaseException:
            mine.close()
            address.parent.rmdir()
            raise
        finally:
            theirs.close()
        self._line, self.address = mine, address

    def _start_process(self, theirs: socket.socket) -> None:
        command = start.command(self.python, "spare_launcher", bare=True, script=self.script)
        with (self.state_dir / LOG_FILE).open("wb") as log:
            first = subprocess.Popen(
                command,
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=log,
                env=inherited(os.environ),
                cwd="/",
                start_new_session=True,
            )
        child.reap(first)

    def _instructions(self, address: Path) -> dict[str, Any]:
        environment = general_environment(inherited(os.environ), self.num_threads, self.env)
        return {
            "address": str(address),
            "key": start_key(self.python, start.code_root(self.script), environment),
            "environment": environment,
            "trainers": list(self.trainers),
        }

    def _is_there(self) -> bool:
        """Whether the spare still waits: it closes its line when it takes a job or ends."""
        with self._lock:
            if self._line is None:
                return False
            try:
                # What it said last may wait in front of the end of its line.
                while said := self._line.recv(16, socket.MSG_DONTWAIT):
                    self._ready = self._ready or said == _READY
            except BlockingIOError:
                return True
            except OSError:
                pass
            self._forget()
            return False

    def _forget(self) -> None:
        if self._line is not None:
            self._line.close()
        if self.address is not None:
            # A spare that was killed could not do it.
            shutil.rmtree(str(self.address.parent), ignore_errors=True)
        self._line = None
        self.address = None
        self._ready = False


def sweep(state_dir: Path) -> list[Path]:
    """Remove the folders of spares that were killed together with their keepers: nobody else does.

    Returns where one still listens: that will end by itself, unless it is killed as well.
    """
    try:
        noted = [Path(line) for line in (state_dir / _NOTE).read_text("utf-8").splitlines()]
    except (OSError, ValueError):
        return []
    ours = [each for each in noted if each.parent.name.startswith(_PREFIX) and each.name == "socket"]
    living = [each for each in ours if _answers(each)]
    for address in ours:
        if address not in living:
            shutil.rmtree(str(address.parent), ignore_errors=True)
    return living


def _answers(address: Path) -> bool:
    """Whether somebody listens there."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        connection.settimeout(TAKE_TIMEOUT_S)
        try:
            connection.connect(str(address))
        except OSError:
            return False
    return True


def _short_directory() -> str:
    # A unix socket's path may have 107 bytes (103 on macOS).
    directory = tempfile.gettempdir()
    return directory if len(os.fsencode(directory)) <= 60 else "/tmp"  # noqa: S108 - the folder in it has a fresh name
