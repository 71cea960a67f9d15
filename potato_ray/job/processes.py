"""What the kernel says of processes: identity, descendants, resident memory, marks.

Read from /proc. Where there is none (macOS) `ps` answers, at a much higher cost; whoever samples
regularly measures that cost and keeps to a rate that it can bear.
"""

from __future__ import annotations

import calendar
import os
import signal
import socket
import subprocess
import time
from functools import lru_cache
from pathlib import Path
from typing import Iterable, NamedTuple

from potato_ray.job.folder import ProcessId

_HAS_PROC = Path("/proc/self/stat").exists()
PS_TIMEOUT_S = 5.0
_PAGE_MB = os.sysconf("SC_PAGE_SIZE") / 2**20


class ProcessRow(NamedTuple):
    """One process; `start_ticks` only grows, whatever its unit (clock ticks; epoch seconds under ps)."""

    pid: int
    parent: int
    state: str
    start_ticks: int
    rss_mb: float


@lru_cache(maxsize=1)
def boot_id() -> str:
    """The kernel's name of the machine's present start; "" where it has none."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""


def identify(pid: int) -> ProcessId | None:
    """The process that has this pid now, or None."""
    row = _row(pid)
    return ProcessId(pid, row.start_ticks, socket.gethostname(), boot_id()) if row is not None else None


def _is_of_another_start(process: ProcessId) -> bool:
    """Whether the machine was started anew since; False where that is not known of then, or of now."""
    present = boot_id()
    return bool(process.boot and present) and process.boot != present


def is_alive(process: ProcessId) -> bool:
    """Whether that very process (not a later one with its pid) runs on this host; a zombie does not."""
    if process.host != socket.gethostname() or _is_of_another_start(process):
        return False
    row = _row(process.pid)
    return row is not None and row.start_ticks == process.start_ticks and row.state not in "ZX"


def descendants(root: int) -> list[int]:
    """The pids of all living descendants of `root`, without `root` itself and without zombies."""
    if _CHILDREN_ARE_LISTED:
        return [pid for pid in _walk(root) if not _is_zombie(pid)]
    return [row.pid for row in _below(root, _table()) if row.state not in "ZX"]


def resident_mb(pids: Iterable[int]) -> float:
    """The sum of the processes' resident memory in MiB; pages that they share count several times."""
    if _HAS_PROC:
        return sum(_statm_mb(pid) for pid in pids)
    wanted = set(pids)
    return sum(row.rss_mb for row in _table() if row.pid in wanted)


def proportional_mb(pids: Iterable[int]) -> float:
    """The same with shared pages counted once; slower. Resident memory where the kernel can't say."""
    return sum(_proportional_mb(pid) for pid in pids)


def high_water_mb(pid: int) -> float:
    """The highest resident memory that this process ever had, in MiB; 0.0 where unknown."""
    return _kilobyte_field(f"/proc/{pid}/status", "VmHWM:") / 1024


def marked(markers: Iterable[str], not_before: int = 0) -> list[int]:
    """Processes whose environment at their start held one of the markers (`NAME=value`).

    `not_before`: in start ticks; older processes cannot belong to the job. Empty without /proc.
    """
    wanted = {marker.encode() for marker in markers}
    return [pid for pid in _pids() if pid != os.getpid() and _is_marked(pid, wanted, not_before)]


def kill(pids: Iterable[int], number: int = signal.SIGKILL) -> None:
    """Send a signal to each process; one that is gone already is no error."""
    for pid in pids:
        try:
            os.kill(pid, number)
        except (ProcessLookupError, PermissionError):
            pass


def end_marked(markers: Iterable[str], not_before: int = 0, patience_s: float = 2.0) -> list[int]:
    """Kill every marked process and return the pids of those that outlive `patience_s`."""
    markers = tuple(markers)
    deadline = time.monotonic() + patience_s
    while True:
        left = marked(markers, not_before)
        if not left or time.monotonic() > deadline:
            return left
        kill(left)
        time.sleep(0.02)


def oom_kills() -> int:
    """How many processes the kernel's out-of-memory killer has ended since the boot; 0 where unknown."""
    try:
        text = Path("/proc/vmstat").read_text("ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith("oom_kill ")), 0)


def _row(pid: int) -> ProcessRow | None:
    if not _HAS_PROC:
        return next((row for row in _table(pid) if row.pid == pid), None)
    try:
        text = Path(f"/proc/{pid}/stat").read_text("utf-8", "replace")
    except OSError:
        return None
    return _parse_stat(pid, text)


def _parse_stat(pid: int, text: str) -> ProcessRow:
    # The command, in parentheses, may hold spaces and parentheses itself.
    fields = text[text.rindex(")") + 2 :].split()
    return ProcessRow(pid, int(fields[1]), fields[0], int(fields[19]), int(fields[21]) * _PAGE_MB)


def _is_zombie(pid: int) -> bool:
    row = _row(pid)
    return row is None or row.state in "ZX"


def _walk(root: int) -> list[int]:
    found: list[int] = []
    waiting = [root]
    while waiting:
        children = _children(waiting.pop())
        found += children
        waiting += children
    return found


def _children(pid: int) -> list[int]:
    found: list[int] = []
    try:
        threads = os.listdir(f"/proc/{pid}/task")  # noqa: PTH208 - called ten times a second
    except OSError:
        return found
    for thread in threads:
        try:
            with open(f"/proc/{pid}/task/{thread}/children", "rb") as handle:
                found += [int(child) for child in handle.read().split()]
        except OSError:
            continue
    return found


def _statm_mb(pid: int) -> float:
    try:
        with open(f"/proc/{pid}/statm", "rb") as handle:
            return int(handle.read().split()[1]) * _PAGE_MB
    except (OSError, IndexError):
        return 0.0


def _proportional_mb(pid: int) -> float:
    kilobytes = _kilobyte_field(f"/proc/{pid}/smaps_rollup", "Pss:")
    return kilobytes / 1024 if kilobytes else resident_mb([pid])


def _kilobyte_field(path: str, name: str) -> int:
    try:
        text = Path(path).read_text("ascii", "replace")
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in text.splitlines() if line.startswith(name)), 0)


def _is_marked(pid: int, wanted: set[bytes], not_before: int) -> bool:
    try:
        environment = Path(f"/proc/{pid}/environ").read_bytes()
    except OSError:
        return False
    if wanted.isdisjoint(environment.split(b"\0")):
        return False
    row = _row(pid)
    return row is not None and row.start_ticks >= not_before and row.state not in "ZX"


def _pids() -> list[int]:
    if not _HAS_PROC:
        return []
    return [int(entry.name) for entry in Path("/proc").iterdir() if entry.name.isdigit()]


def _below(root: int, table: list[ProcessRow]) -> list[ProcessRow]:
    by_parent: dict[int, list[ProcessRow]] = {}
    for row in table:
        by_parent.setdefault(row.parent, []).append(row)
    found: list[ProcessRow] = []
    waiting = [root]
    while waiting:
        children = by_parent.get(waiting.pop(), [])
        found += children
        waiting += [row.pid for row in children]
    return found


def _table(pid: int | None = None) -> list[ProcessRow]:
    if _HAS_PROC:
        rows = (_row(each) for each in _pids())
        return [row for row in rows if row is not None]
    which = ["-A"] if pid is None else ["-p", str(pid)]
    command = ["ps", *which, "-o", "pid=,ppid=,state=,rss=,lstart="]
    environment = dict(os.environ, LC_ALL="C", TZ="UTC")
    answer = subprocess.run(
        command, capture_output=True, text=True, timeout=PS_TIMEOUT_S, env=environment, check=False
    )
    return parse_ps(answer.stdout)


def parse_ps(text: str) -> list[ProcessRow]:
    """Parse `ps -o pid=,ppid=,state=,rss=,lstart=` (rss in KiB, lstart in UTC and the C locale)."""
    rows = []
    for line in text.splitlines():
        fields = line.split(None, 4)
        if len(fields) == 5:
            start = calendar.timegm(time.strptime(fields[4].strip(), "%a %b %d %H:%M:%S %Y"))
            rows.append(
                ProcessRow(int(fields[0]), int(fields[1]), fields[2][0], start, int(fields[3]) / 1024)
            )
    return rows


_CHILDREN_ARE_LISTED = Path(f"/proc/self/task/{os.getpid()}/children").exists()
