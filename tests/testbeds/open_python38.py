"""A Python 3.8 with scikit-learn and skops that every account of this machine can run, made once and kept."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from parts import missing, need_python38

PACKAGES = ("scikit-learn==1.3.2", "skops==0.9.0")
INSTALL_S = 400.0
UNUSED = ("test", "idlelib", "config-3.8-*", "lib2to3", "share")


@dataclass(frozen=True)
class OpenPython:
    """Its interpreter, and where the loader finds its libraries (LD_LIBRARY_PATH)."""

    path: Path
    libraries: Path


def need_open_python38() -> OpenPython:
    """A copy of the Python 3.8 here: the one below somebody's home is nothing to other accounts."""
    base = Path(need_python38()).resolve()
    kept = Path(tempfile.gettempdir()) / f"potato-ray-tests-open-{os.getuid()}"
    kept.mkdir(mode=0o755, exist_ok=True)
    if kept.lstat().st_uid != os.getuid():
        missing(f"{kept} belongs to somebody else")
    folder = kept / "-".join(["python-3.8", *PACKAGES])
    with (kept / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (folder / "installed").exists():
            _install(base, folder)
    return OpenPython(folder / "bin" / "python3.8", folder / "lib")


def _install(base: Path, folder: Path) -> None:
    prefix = base.parents[1]
    if prefix == Path("/usr"):
        missing("the Python 3.8 here is the system's own, and has no folder to itself")
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(prefix, folder, symlinks=True, ignore=shutil.ignore_patterns(*UNUSED))
    python = str(folder / "bin" / "python3.8")
    pip = [python, "-E", "-s", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    quick_to_give_up = ["--retries", "1", "--timeout", "15", "--only-binary", ":all:"]
    found = {**os.environ, "LD_LIBRARY_PATH": str(folder / "lib")}
    try:
        subprocess.run(
            [*pip, *quick_to_give_up, *PACKAGES],
            env=found,
            capture_output=True,
            text=True,
            timeout=INSTALL_S,
            check=True,
        )
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as failure:
        missing(f"{' and '.join(PACKAGES)} could not be installed for Python 3.8: {failure.stderr}")
    (folder / "installed").touch()
