"""`potato-ray` as people call it: a process of its own, and what it has said."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from server_process import PROGRAM


def potato_ray(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """Run a command to its end, which takes a minute at most; a traceback fails the test."""
    told = subprocess.run(
        [sys.executable, "-c", PROGRAM, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd="/",
    )
    assert "Traceback" not in told.stderr, told.stderr
    return told
