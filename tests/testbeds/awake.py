"""A machine whose processors do not go to sleep, for measures of processor time.

On a virtual machine that sleeps in between, each wake takes several times what the work behind it takes, and
is counted as the work of whoever was woken.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

_BUSY = "import os\nwhile os.getppid() == {parent}:\n    for _ in range(100_000):\n        pass\n"


@contextmanager
def kept_awake() -> Iterator[None]:
    """During the block an idle-class process runs on each processor, and gives way to all others."""
    with ExitStack() as stack:
        for _ in range(os.cpu_count() or 1):
            busy = subprocess.Popen([sys.executable, "-I", "-S", "-c", _BUSY.format(parent=os.getpid())])
            stack.callback(busy.wait, 10)
            stack.callback(busy.kill)
            os.sched_setscheduler(busy.pid, os.SCHED_IDLE, os.sched_param(0))
        yield
