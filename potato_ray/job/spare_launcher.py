"""The process of a spare worker: waits for one job, then is an ordinary detached launcher.

Started by spare.SpareKeeper, with one end of a socket pair as its stdin: instructions come in there,
"ready" goes out, and its end means that the owner is gone.
"""

from __future__ import annotations

import json
import os
import socket
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any, Sequence

from potato_ray.job import child, start
from potato_ray.job.claim import Claim, LaunchFailed
from potato_ray.job.folder import JobFolder
from potato_ray.job.limits import data_limit_mb
from potato_ray.job.processes import descendants, kill
from potato_ray.job.signal_pipe import SignalPipe

INSTRUCTIONS_TIMEOUT_S = 10.0
REQUEST_TIMEOUT_S = 2.0
LOOK_EVERY_S = 1.0


def main(_arguments: Sequence[str]) -> int:
    """Ends with its owner, or with the job that it took."""
    if not child.detach():
        os._exit(0)
    owner = _take_over_stdin()
    child.reset_signals()
    child.reset_priority()
    child.adopt_orphans()
    instructions = _read_line(owner, INSTRUCTIONS_TIMEOUT_S)
    if instructions is None:
        return 1
    spare = SpareLauncher(owner, instructions)
    claim = spare.wait()
    if claim is not None:
        _log_to(claim.folder.launcher_log)
        claim.supervise(spare.signals)
    return 0


class SpareLauncher:
    """Holds a loaded worker for the first job whose key is the spare's own."""

    def __init__(self, owner: socket.socket, instructions: dict[str, Any]) -> None:
        self.owner = owner
        self.signals = SignalPipe()
        self.key = instructions["key"]
        self.address = Path(instructions["address"])
        self.marker = f"POTATO_RAY_SPARE={self.address}:{os.getpid()}"
        self._listener = _listen(self.address)
        self._said, self._control, self.worker = self._start_worker(instructions)

    def wait(self) -> Claim | None:
        """The claim of the job that was taken, or None when the owner, the worker or a SIGTERM ended it."""
        while not self.signals.terminated and os.waitpid(self.worker, os.WNOHANG)[0] == 0:
            ready = self.signals.wait(LOOK_EVERY_S, self._sources())
            if self.owner in ready:
                break
            if self._said in ready:
                self._pass_on()
            if self._listener in ready:
                claim = self._serve()
                if claim is not None:
                    return claim
        self._close()
        kill(descendants(os.getpid()))
        return None

    def _sources(self) -> list[Any]:
        said = [self._said] if self._said >= 0 else []
        return [self.owner, self._listener, *said]

    def _start_worker(self, instructions: dict[str, Any]) -> tuple[int, int, int]:
        control_out, control_in = os.pipe()
        said_out, said_in = os.pipe()
        name, _, value = self.marker.partition("=")
        worker = child.spawn(
            start.command(sys.executable, "worker", "--spare", *instructions["trainers"]),
            {**instructions["environment"], name: value},
            folder=tempfile.gettempdir(),
            stdin=control_out,
            stdout=said_in,
            stderr=2,
        )
        for descriptor in (control_out, said_in):
            os.close(descriptor)
        return said_out, control_in, worker

    def _pass_on(self) -> None:
        """The worker has loaded what it was told to."""
        if os.read(self._said, 64):
            self.owner.sendall(b"r")
        os.close(self._said)
        self._said = -1

    def _serve(self) -> Claim | None:
        """Answer one request; the claim when its job was taken."""
        connection = self._listener.accept()[0]
        with connection:
            try:
                request = _read_line(connection, REQUEST_TIMEOUT_S) or {}
                claim = self._claim(request)
            except (LaunchFailed, OSError, ValueError, KeyError, TypeError) as failure:
                _answer(connection, {"ok": False, "why": str(failure)})
                return None
            launcher = claim.announce(self.worker, self._markers(request))
            self._close()
            _answer(connection, {"ok": True, "launcher": asdict(launcher)})
        return claim

    def _claim(self, request: dict[str, Any]) -> Claim:
        """Claim the job's folder and hand the job to the worker; from here on there is no way back."""
        if request["key"] != self.key:
            raise ValueError("the job wants another interpreter or environment")
        claim = Claim(JobFolder(request["job"]))
        job = {
            "job": request["job"],
            "late": {**request["late"], "POTATO_RAY_SPARE": self.marker.partition("=")[2]},
            "data_limit_mb": data_limit_mb(claim.spec.limits.max_ram_mb),
        }
        try:
            os.write(self._control, json.dumps(job).encode("ascii") + b"\n")
        except OSError:
            claim.release()
            raise
        return claim

    def _markers(self, request: dict[str, Any]) -> list[str]:
        return [f"POTATO_RAY_JOB={request['late']['POTATO_RAY_JOB']}", self.marker]

    def _close(self) -> None:
        """No more requests, and the owner learns that this spare is none any longer."""
        self._listener.close()
        try:
            self.address.unlink()
            self.address.parent.rmdir()
        except OSError:
            pass  # somebody tidied /tmp
        self.owner.close()


def _take_over_stdin() -> socket.socket:
    """The line to the owner; fd 0 must not keep it open beyond its closing."""
    line = socket.socket(fileno=os.dup(0))
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return line


def _log_to(path: Path) -> None:
    log = os.open(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 2)
    os.close(log)


def _listen(address: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    mask = os.umask(0o177)
    try:
        listener.bind(str(address))
    finally:
        os.umask(mask)
    listener.listen(4)
    return listener


def _read_line(connection: socket.socket, timeout_s: float) -> dict[str, Any] | None:
    """One JSON object from a line; None when none came in time."""
    connection.settimeout(timeout_s)
    try:
        with connection.makefile("rb") as lines:
            body = json.loads(lines.readline())
    except (OSError, ValueError):
        return None
    return body if isinstance(body, dict) else None


def _answer(connection: socket.socket, body: dict[str, Any]) -> None:
    try:
        connection.sendall(json.dumps(body).encode("ascii") + b"\n")
    except OSError:
        pass  # whoever asked has stopped waiting, and will find process.json
