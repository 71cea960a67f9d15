"""Holds an ssh for a process that may be killed. A program of its own, of the standard library alone.

    python -I -S keeper.py PARENT_PID CONTROL_FOLDER ssh …

    parent ─▶ watcher ─▶ keeper ─▶ ssh        ssh ends when the keeper's input ends, when the parent has gone,
                                              or when one of the two is told to end; then the folder goes too

There are two, for either may be killed: Ray does so to the children of workers that it ends. Whoever is left
ends the rest, and the kernel kills ssh with its keeper. Both end with ssh's exit code. The parent's death as
the kernel could report it to ssh itself would be that of the parent's thread, which is too early.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time

TYPE_CHECKING = False  # typing, too, takes its time
if TYPE_CHECKING:
    from collections.abc import Callable

LOOK_S = 1.0
GRACE_S = 3.0
STEP_S = 0.02
REMOVE_TRIES = 50
COULD_NOT_START = 127
PR_SET_PDEATHSIG = 1
SIGNALS = (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)


def main() -> int:
    parent, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    reading, writing = os.pipe()  # ends with the watcher
    keeper = os.fork()
    if keeper:
        os.close(reading)
        return _watch(keeper, parent, folder)
    os.close(writing)
    os.setsid()
    return _keep(command, folder, reading)


def _watch(keeper: int, parent: int, folder: str) -> int:
    """Tell the keeper to end when we are told, or the parent has gone; remove what it leaves when killed."""
    woken = _wake_on(*SIGNALS)
    while True:
        code = _code(keeper)
        if code is not None:
            _remove(folder)
            return code
        readable, _, _ = select.select([woken], [], [], LOOK_S)
        told = bool(readable) and bool(set(os.read(woken, 4096)) - {signal.SIGCHLD})
        if told or os.getppid() != parent:
            os.kill(keeper, signal.SIGTERM)


def _keep(command: list[str], folder: str, watcher: int) -> int:
    woken = _wake_on(*SIGNALS)
    ssh = _start(command)
    try:
        code = _follow(ssh, watcher, woken)
        return _end(ssh) if code is None else code
    finally:
        _remove(folder)


def _wake_on(*numbers: int) -> int:
    """A descriptor from which the numbers of signals can be read as they come."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    return reading


def _start(command: list[str]) -> int:
    """ssh as a child: its own session, no terminal to ask at, no input."""
    reading, writing = os.pipe()
    keeper, pid = os.getpid(), os.fork()
    if pid:
        os.close(writing)
        os.read(reading, 1)  # ends when the child has become ssh, and thus is a group that can be ended
        os.close(reading)
        return pid
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        signal.set_wakeup_fd(-1)
        for number in SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        _die_with(keeper)
        os.execvp(command[0], command)  # noqa: S606 - there is no shell
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(COULD_NOT_START)


def _die_with(keeper: int) -> None:
    """Have the kernel kill this process, whatever program it becomes, when the keeper dies; on Linux."""
    if sys.platform != "linux":
        return
    try:
        import ctypes

        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    except (ImportError, OSError, AttributeError):
        return  # a Python without it: the keeper and its watcher have to do
    if os.getppid() != keeper:
        os._exit(COULD_NOT_START)  # it died just before


def _follow(ssh: int, watcher: int, woken: int) -> int | None:
    """Wait for ssh's end, and give its exit code; None when it is ssh that has to be ended."""
    while True:
        code = _code(ssh)
        if code is not None:
            return code
        readable, _, _ = select.select([0, watcher, woken], [], [], LOOK_S)
        if watcher in readable or (0 in readable and not os.read(0, 4096)):
            return None
        if woken in readable and set(os.read(woken, 4096)) - {signal.SIGCHLD}:
            return None


def _end(ssh: int) -> int:
    """End ssh and what it has started (ProxyJump, ProxyCommand); they are one process group."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        os.killpg(ssh, number)
        code = _wait(ssh)
        if code is not None:
            return code
    return 128 + signal.SIGKILL


def _wait(child: int) -> int | None:
    """The exit code of a child, None if it does not end within the grace."""
    ends_at = time.monotonic() + GRACE_S
    while time.monotonic() < ends_at:
        code = _code(child)
        if code is not None:
            return code
        time.sleep(STEP_S)
    return None


def _code(ssh: int) -> int | None:
    pid, status = os.waitpid(ssh, os.WNOHANG)
    if not pid:
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


def _remove(folder: str) -> None:
    """Remove the folder, and in it those of the login's users, who may be about that themselves."""
    for _ in range(REMOVE_TRIES):
        # pathlib would double the time that this program takes to start.
        for path, _folders, names in os.walk(folder, topdown=False):
            for name in names:
                _quietly(os.unlink, os.path.join(path, name))  # noqa: PTH118
            _quietly(os.rmdir, path)
        if not os.path.exists(folder):  # noqa: PTH110
            return
        time.sleep(STEP_S)


def _quietly(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:
        pass  # somebody else was quicker, or puts something in


if __name__ == "__main__":
    sys.exit(main())
