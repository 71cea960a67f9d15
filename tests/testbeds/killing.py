"""Finding a process of a server by its part in the work, and killing or freezing it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

from server_process import ServerProcess

from potato_ray.job import processes

GONE_WITHIN_S = 10.0
FROZEN_WITHIN_S = 10.0
# What a Ray worker is called while it works for a run; the controller and supervisors have rows of their own.
_TASKS = ("ray::IDLE", "ray::build_bundle", "ray::finish_run", "ray::warm_up")
_NAMED: dict[str, Callable[[str], bool]] = {
    "controller": lambda command: command.startswith("ray::RunController"),
    "Ray worker": lambda command: command.startswith(_TASKS),
    "supervising task": lambda command: command.startswith("ray::supervise_run"),
    "building task": lambda command: command.startswith("ray::build_bundle"),
    "finishing task": lambda command: command.startswith("ray::finish_run"),
    "raylet": lambda command: command.split(" ")[0].endswith("/raylet"),
    "launcher": lambda command: _has_role(command, "launcher") or _has_role(command, "spare_launcher"),
}


def _has_role(command: str, role: str) -> bool:
    return f"job/start.py {role}" in command


def victims(server: ServerProcess, part: str) -> list[int]:
    """The pids of the processes of `server` that play a part: one of fault_matrix.MATRIX, or a task."""
    if part == "server":
        return [server.process.pid]
    if part == "training worker":
        return [child for pid in victims(server, "launcher") for child in processes.descendants(pid)]
    return [pid for pid in server.processes() if _NAMED[part](command_of(pid))]


def command_of(pid: int) -> str:
    """Its command line; "" when it has just ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except OSError:
        return ""


def freeze(server: ServerProcess, part: str) -> list[int]:
    """Stop those that play a part, as soon as there are any: their work is met in the middle. Their pids."""
    deadline = time.monotonic() + FROZEN_WITHIN_S
    while True:
        found = victims(server, part)
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGSTOP)
        still = victims(server, part)
        if found and still == found:
            return found
        thaw(found)  # its work was over meanwhile
        assert time.monotonic() < deadline, f"no process is the {part}"
        time.sleep(0.002)


def thaw(frozen: list[int]) -> None:
    """Let those go on that are still there. No pid is given to another process within seconds."""
    for pid in frozen:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def kill(server: ServerProcess, part: str) -> list[int]:
    """Kill them with SIGKILL and see them gone; their pids. There must be at least one."""
    found = victims(server, part)
    assert found, f"no process is the {part}"
    known = [process for process in map(processes.identify, found) if process is not None]
    for process in known:
        os.kill(process.pid, signal.SIGKILL)
    if part == "server":
        server.process.wait(GONE_WITHIN_S)
    deadline = time.monotonic() + GONE_WITHIN_S
    while any(map(processes.is_alive, known)):
        assert time.monotonic() < deadline, f"the {part} survives SIGKILL"
        time.sleep(0.01)
    return found
