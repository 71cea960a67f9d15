"""Starting a process whose fate is tied to its parent's, and what a process inherits.

Only for single-threaded parents: Python code runs between fork and exec.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import threading
import time
from typing import Any, Mapping, NoReturn, Sequence

_SET_PDEATHSIG = 1
_SET_CHILD_SUBREAPER = 36
_RESET_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD)
PARENT_CHECK_S = 0.5
REAP_TIMEOUT_S = 10.0


def spawn(
    command: Sequence[str],
    environment: Mapping[str, str],
    *,
    folder: str,
    stdin: int,
    stdout: int,
    stderr: int,
    data_limit_mb: int | None = None,
) -> int:
    """Start `command` in a session of its own, in `folder`; the kernel kills it when this process dies.

    Returns its pid. A command that cannot be executed ends with 127 and says so on its stderr.
    """
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    try:
        os.setsid()
        for target, source in enumerate((stdin, stdout, stderr)):
            os.dup2(source, target)
        os.chdir(folder)
        reset_signals()
        limit_data(data_limit_mb)
        die_with_parent(parent)
        os.execve(command[0], list(command), dict(environment))  # noqa: S606 - there is no shell
    except BaseException as failure:  # noqa: BLE001 - nothing may escape into the parent's code
        os.write(2, f"{command[0]} could not be started: {failure}\n".encode("utf-8", "replace"))
    finally:
        os._exit(127)


def detach() -> bool:
    """Fork twice into a session of its own. True in the detached process, False in the first one.

    The first one has to end at once by os._exit, so that its parent can reap it.
    """
    if os.fork():
        return False
    os.setsid()
    if os.fork():
        os._exit(0)
    return True


def reap(first: subprocess.Popen[bytes]) -> None:
    """Take leave of the first process of a detached one, which ends at once unless something hangs."""
    try:
        first.wait(REAP_TIMEOUT_S)
    except subprocess.TimeoutExpired:
        first.kill()
        first.wait()


def reset_signals() -> None:
    """Default handlers and nothing blocked, whatever was inherited (a Ray worker blocks SIGINT)."""
    for number in _RESET_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def reset_priority() -> None:
    """Undo the niceness and the out-of-memory score of a Ray worker, as far as we are allowed to."""
    try:
        if os.getpriority(os.PRIO_PROCESS, 0) > 0:
            os.setpriority(os.PRIO_PROCESS, 0, 0)
    except OSError:
        pass
    try:
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as handle:
            handle.write("0")
    except OSError:
        pass


def limit_data(limit_mb: int | None) -> None:
    """Set RLIMIT_DATA, never above what is already set."""
    if limit_mb is None:
        return
    hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
    wanted = limit_mb * 2**20
    allowed = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
    resource.setrlimit(resource.RLIMIT_DATA, (allowed, hard))


def die_with_parent(parent: int) -> None:
    """Have the kernel send SIGKILL when the parent dies; end now if it is dead already. Linux only."""
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(127)


def watch_parent() -> None:
    """Where prctl can't tie fates (macOS), end this process from a thread when its parent dies."""
    if _libc is not None:
        return
    threading.Thread(target=_end_without_parent, args=(os.getppid(),), daemon=True).start()


def adopt_orphans() -> None:
    """Become the parent of every descendant that loses its own, so that none can slip away. Linux only."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _end_without_parent(parent: int) -> NoReturn:
    while os.getppid() == parent:
        time.sleep(PARENT_CHECK_S)
    os._exit(1)


def _prctl(option: int, value: int) -> None:
    if _libc is not None:
        _libc.prctl(option, value, 0, 0, 0)


def _load_libc() -> Any:
    if not sys.platform.startswith("linux"):
        return None
    try:
        import ctypes
    except ImportError:  # a Python that was built without libffi
        return None
    return ctypes.CDLL(None)


_libc = _load_libc()
