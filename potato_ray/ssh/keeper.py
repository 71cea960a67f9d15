"""Holds an ssh for a process that may be killed. A program of its own, of the standard library alone.

    python -I -S keeper.py PARENT_PID CONTROL_FOLDER ssh …

ssh ends when the keeper's input ends, when the parent has gone, or when the keeper is told to end; then the
folder goes too. The keeper ends with ssh's exit code. The parent's death as the kernel could report it to ssh
itself would be that of the parent's thread, which is too early.
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


def main() -> int:
    parent, folder, command = int(sys.argv[1]), sys.argv[2], sys.argv[3:]
    woken = _wake_on(signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    ssh = _start(command)
    try:
        code = _follow(ssh, parent, woken)
        return _end(ssh) if code is None else code
    finally:
        _remove(folder)


def _wake_on(*numbers: int) -> int:
    """A descriptor from which the numbers of signals can be read as they come."""
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.set_blocking(writing, False)
    for number in numbers:
        signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    return reading


def _start(command: list[str]) -> int:
    """ssh as a child: its own session, no terminal to ask at, no input."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        os.read(reading, 1)  # ends when the child has become ssh, and thus is a group that can be ended
        os.close(reading)
        return pid
    try:
        os.setsid()
        os.dup2(os.open(os.devnull, os.O_RDWR), 0)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            signal.signal(number, signal.SIG_DFL)
        os.execvp(command[0], command)  # noqa: S606 - there is no shell
    except OSError as error:
        os.write(2, f"{command[0]}: {error.strerror}\n".encode())
    finally:
        os._exit(COULD_NOT_START)


def _follow(ssh: int, parent: int, woken: int) -> int | None:
    """Wait for ssh's end, and give its exit code; None when it is ssh that has to be ended."""
    while True:
        code = _code(ssh)
        if code is not None:
            return code
        if os.getppid() != parent:
            return None
        readable, _, _ = select.select([0, woken], [], [], LOOK_S)
        if 0 in readable and not os.read(0, 4096):
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
