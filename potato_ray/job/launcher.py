"""The launcher: starts a worker in its job folder and leaves every fact about it in files.

    python -m potato_ray.job.launcher JOBDIR                detached; returns when the worker has started
    python -m potato_ray.job.launcher JOBDIR --foreground   for a batch system; ends as the worker does

Detached, it survives whoever started it. It ends its worker at the limits, on cancel.json, on SIGTERM,
and when nobody renews the lease.
"""

from __future__ import annotations

import argparse
import json
import os
import select
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any, Mapping, NoReturn, Sequence

from potato_ray.job import child, start
from potato_ray.job.claim import Claim, LaunchFailed, open_logs
from potato_ray.job.environment import inherited, late_environment, worker_environment
from potato_ray.job.event_log import EventLog
from potato_ray.job.events import EXIT_BAD_SPEC, EXIT_UNEXPECTED
from potato_ray.job.failures import DISK_ADVICE
from potato_ray.job.folder import Exit, JobFolder, ProcessId
from potato_ray.job.limits import data_limit_mb
from potato_ray.job.processes import is_alive
from potato_ray.job.signal_pipe import SignalPipe
from potato_ray.job.spare import take_spare

__all__ = ["LaunchFailed", "main", "start_detached"]

START_TIMEOUT_S = 20.0
LATE_SPARE_S = 5.0
LOG_TAIL_CHARS = 2000
_INSIDE = "--inside"


def start_detached(
    folder: JobFolder | Path, python: str = sys.executable, spare: Path | None = None
) -> ProcessId:
    """Start a launcher that outlives this process; returns its identity once process.json is there.

    `python` runs launcher and worker. `spare` is the address of a spare worker, which is taken when it
    fits. Raises LaunchFailed when no worker could be started within 20 s.
    """
    folder = folder if isinstance(folder, JobFolder) else JobFolder(folder)
    if spare is not None:
        taken = take_spare(spare, folder, python)
        if taken is not None:
            return taken
    try:
        return _start_cold(folder, python)
    except LaunchFailed as failure:
        late = _late_spare(folder) if spare is not None and failure.code == "already_launched" else None
        if late is None:
            raise
        return late


def main(arguments: Sequence[str]) -> int:
    """Returns 0 once detached; in the foreground the worker's exit code, or 128 + its signal."""
    parser = argparse.ArgumentParser(prog="potato_ray.job.launcher", description=__doc__.split("\n")[0])
    parser.add_argument("folder", type=Path, help="the job folder, with spec.json and the bundle")
    parser.add_argument("--foreground", action="store_true", help="stay, and end as the worker does")
    parser.add_argument(_INSIDE, dest="inside", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    folder = JobFolder(options.folder.resolve())
    if options.inside:
        _run_detached(folder)
    try:
        if options.foreground:
            return _run_in_foreground(folder)
        process = start_detached(folder)
    except LaunchFailed as failure:
        sys.stderr.write(f"{failure.message} {failure.next_step}\n")
        return EXIT_BAD_SPEC if failure.code == "bad_spec" else EXIT_UNEXPECTED
    sys.stdout.write(f"launcher {process.pid} on {process.host}\n")
    return 0


def _start_cold(folder: JobFolder, python: str) -> ProcessId:
    command = start.command(python, "launcher", str(folder.path.resolve()), _INSIDE, bare=True)
    try:
        with folder.launcher_log.open("ab") as log:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=log,
                env=inherited(os.environ),
                cwd="/",
                start_new_session=True,
            )
    except OSError as failure:
        raise LaunchFailed(
            "launch_failed",
            f"The launcher could not be started: {failure}",
            "Check that the interpreter and the job folder exist.",
        ) from failure
    assert process.stdout is not None  # noqa: S101 - for the type checker
    with process.stdout as stdout:
        answer = _read_answer(stdout.fileno(), START_TIMEOUT_S)
    child.reap(process)
    return _understood(folder, answer)


def _read_answer(descriptor: int, timeout_s: float) -> bytes:
    """One line from the launcher, or what came of it before the end or the deadline."""
    deadline = time.monotonic() + timeout_s
    answer = b""
    while not answer.endswith(b"\n"):
        left_s = max(0.0, deadline - time.monotonic())
        if not select.select([descriptor], [], [], left_s)[0]:
            break
        piece = os.read(descriptor, 65536)
        if not piece:
            break
        answer += piece
    return answer


def _understood(folder: JobFolder, answer: bytes) -> ProcessId:
    try:
        body = json.loads(answer)
    except ValueError:
        tail = _tail(folder.launcher_log)
        raise LaunchFailed(
            "launch_failed",
            f"The launcher did not start its worker. {tail}".rstrip(),
            "Look at launcher.log in the job folder.",
        ) from None
    if "code" in body:
        raise LaunchFailed(body["code"], body["message"], body["next_step"])
    return ProcessId.from_json(body)


def _late_spare(folder: JobFolder) -> ProcessId | None:
    """The launcher of a spare worker that took the job, but whose answer came too late."""
    deadline = time.monotonic() + LATE_SPARE_S
    while time.monotonic() < deadline:
        processes = folder.read_processes()
        if processes is not None:
            return processes.launcher if is_alive(processes.launcher) else None
        time.sleep(0.02)
    return None


def _run_detached(folder: JobFolder) -> NoReturn:
    if not child.detach():
        os._exit(0)
    code = EXIT_UNEXPECTED
    try:
        child.reset_priority()
        code = _launch_detached(folder)
    except BaseException:  # noqa: BLE001 - the traceback belongs into launcher.log
        sys.excepthook(*sys.exc_info())
    finally:
        sys.stderr.flush()
        os._exit(code)


def _launch_detached(folder: JobFolder) -> int:
    signals = _prepare()
    try:
        claim = Claim(folder)
        launcher = _start_worker(claim, os.environ)
    except LaunchFailed as failure:
        _answer({"code": failure.code, "message": failure.message, "next_step": failure.next_step})
        return EXIT_UNEXPECTED
    except OSError as failure:
        why = f"The launcher could not write into the job folder: {failure.strerror}."
        _answer({"code": "launch_failed", "message": why, "next_step": DISK_ADVICE})
        return EXIT_UNEXPECTED
    if not _answer(asdict(launcher)):
        folder.request_cancel("whoever started this job gave up waiting for it", 0.0)
    claim.supervise(signals)
    return 0


def _run_in_foreground(folder: JobFolder) -> int:
    signals = _prepare()
    try:
        claim = Claim(folder)
    except LaunchFailed as failure:
        if failure.code == "bad_spec":
            _leave_bad_spec(folder, failure)
        raise
    _start_worker(claim, inherited(os.environ, everything=True))
    end = claim.supervise(signals)
    return end.code if end.code is not None else 128 + (end.signal or 0)


def _prepare() -> SignalPipe:
    child.reset_signals()
    child.adopt_orphans()
    return SignalPipe()


def _start_worker(claim: Claim, base: Mapping[str, str]) -> ProcessId:
    folder, spec = claim.folder, claim.spec
    stdout, stderr = open_logs(folder)
    nothing = os.open(os.devnull, os.O_RDONLY)
    worker = child.spawn(
        start.command(sys.executable, "worker", str(folder.path)),
        worker_environment(base, spec),
        folder=str(folder.path),
        stdin=nothing,
        stdout=stdout,
        stderr=stderr,
        data_limit_mb=data_limit_mb(spec.limits.max_ram_mb),
    )
    for descriptor in (nothing, stdout, stderr):
        os.close(descriptor)
    return claim.announce(worker, [f"POTATO_RAY_JOB={late_environment(spec)['POTATO_RAY_JOB']}"])


def _answer(body: Mapping[str, Any]) -> bool:
    """Tell the starter, then let go of its pipe; False when it no longer listens."""
    listened = True
    try:
        os.write(1, json.dumps(body).encode("ascii") + b"\n")
    except OSError:
        listened = False
    nothing = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nothing, 1)
    os.close(nothing)
    return listened


def _leave_bad_spec(folder: JobFolder, failure: LaunchFailed) -> None:
    """Whoever follows the folder from elsewhere learns it from there."""
    EventLog(folder.events).write(
        "error", code=failure.code, message=failure.message, next_step=failure.next_step
    )
    now = time.time()
    folder.write_exit(Exit(EXIT_BAD_SPEC, None, started_at=now, ended_at=now, detail=failure.message))


def _tail(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace")[-LOG_TAIL_CHARS:].strip()
    except OSError:
        return ""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
