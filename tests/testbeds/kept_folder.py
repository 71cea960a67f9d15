"""What tests install from the package index: made once, and kept between the runs of the tests."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from parts import missing

INSTALL_S = 400.0
_QUICK_TO_GIVE_UP = ("--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", "15")


def kept_folder(name: str, fill: Callable[[Path], None]) -> Path:
    """The folder of that name, which `fill` has made; processes that want it at once make it once."""
    kept = Path(tempfile.gettempdir()) / f"potato-ray-tests-{os.getuid()}"
    kept.mkdir(mode=0o700, exist_ok=True)
    if kept.lstat().st_uid != os.getuid():
        missing(f"{kept} belongs to somebody else")
    key = re.sub(r"[^a-z0-9.]+", "-", name.lower())
    folder = kept / key
    with (kept / f"{key}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            shutil.rmtree(folder, ignore_errors=True)
            fill(folder)
            (folder / "installed").touch()
    return folder


def run_or_miss(command: Sequence[str], what: str) -> None:
    """Run it; where it fails, as without a network, `what` is the part that this machine lacks."""
    try:
        subprocess.run(command, capture_output=True, text=True, timeout=INSTALL_S, check=True)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
        missing(f"{what} could not be installed: {failure.stderr}")


def pip_install(python: str, *arguments: str) -> None:
    """`pip install` of wheels; the test ends where that cannot be."""
    pip = [python, "-m", "pip", "install", *_QUICK_TO_GIVE_UP, "--only-binary", ":all:"]
    run_or_miss([*pip, *arguments], " ".join(arguments))
