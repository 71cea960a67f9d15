"""Ray's processes as the kernel shows them: whether its servers live, and what a session has left.

A raylet that was killed is noticed by Ray's own calls after half a minute, and some of Ray's processes
outlive their servers by as much. Read from /proc; where there is none (macOS), nothing is found.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from potato_ray.job import processes
from potato_ray.job.folder import ProcessId

SERVERS = frozenset({"gcs_server", "raylet"})
PATIENCE_S = 2.0


def servers() -> tuple[ProcessId, ...]:
    """Ray's servers that this process has started."""
    pids = [pid for pid in processes.descendants(os.getpid()) if _name(pid) in SERVERS]
    return tuple(filter(None, map(processes.identify, pids)))


def end_session(folder: Path) -> None:
    """End the processes of the session in `folder`: those of Ray that have a file of it open."""
    deadline = time.monotonic() + PATIENCE_S
    while (left := _holders(folder)) and time.monotonic() < deadline:
        processes.kill(left)
        time.sleep(0.02)


def _holders(folder: Path) -> list[int]:
    """This process is none of them; neither is a pager or an editor that shows a log."""
    pids = [int(entry.name) for entry in _entries(Path("/proc")) if entry.name.isdigit()]
    return [pid for pid in pids if pid != os.getpid() and _is_of_ray(pid) and _has_open(pid, folder)]


def _is_of_ray(pid: int) -> bool:
    program = _target(Path(f"/proc/{pid}/exe"))
    return program == os.path.realpath(sys.executable) or "/ray/core/src/ray/" in program


def _has_open(pid: int, folder: Path) -> bool:
    return any(_target(entry).startswith(f"{folder}/") for entry in _entries(Path(f"/proc/{pid}/fd")))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []  # it has ended, or belongs to somebody else


def _target(link: Path) -> str:
    try:
        return str(link.readlink())
    except OSError:
        return ""


def _name(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/comm").read_text("utf-8", "replace").strip()
    except OSError:
        return ""
