"""The virtual environment for a backend's list of packages: built once a list, shared by all runs.

REMOTE_DIR/environments/<hash>/            the environment; whole.json is written last
REMOTE_DIR/environments/<hash>.lock        held while it is built
REMOTE_DIR/environments/<hash>.txt         the list, for pip: an address in it may hold a password

It sees what is installed on the host, above all a torch that fits the GPUs there. The name depends on list
and interpreter alone, so an environment is never built again in another way.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Mapping, Sequence

from potato_ray.agent.file_lock import FileLock
from potato_ray.host.facts import WHOLE, environment_python, is_built, run
from potato_ray.host.remote_dir import disk_facts, place
from potato_ray.host.talk import Failed, say

BUILD_S = 1800.0
STEP_S = 120.0
LOCK_EVERY_S = 0.2
TAIL_LINES = 12
LONGEST_LINE = 400
_LEADING_ELSEWHERE = frozenset({"PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PYTHONHOME", "PYTHONPATH"})
"""What a login shell may have set, and what would have pip install to another place."""
_ASK_SITE = (
    "import json, site, sys; own = sys.prefix != sys.base_prefix; "
    "print(json.dumps(site.getsitepackages() if own else []))"
)
_ASK_PURELIB = "import sysconfig; print(sysconfig.get_path('purelib'))"


def environment_for(request: Mapping[str, Any]) -> str:
    """The interpreter for the workers: the environment's, built where it is missing; or our own.

    Says {"log": line} of what pip says. Raises Failed (packages_failed, noexec, lock_held), OSError.
    """
    python = environment_python(request)
    if python is None:
        return sys.executable
    root = python.parents[1]
    if disk_facts(root)["noexec"]:
        raise Failed(
            "packages_failed",
            f"Packages cannot be installed below {place(request)}: its disk runs no programs (noexec).",
            next_step="Name a remote_dir elsewhere, or leave out `packages` and install them there by hand.",
        )
    root.parent.mkdir(0o700, parents=True, exist_ok=True)
    lock = FileLock(root.with_name(root.name + ".lock"))
    _take(lock, request.get("build_timeout_s") or BUILD_S)
    with lock:
        if not is_built(python):
            try:
                _Build(request, root).run()
            except BaseException:
                shutil.rmtree(str(root), ignore_errors=True)
                raise
            finally:
                _list_of(root).unlink(missing_ok=True)
        os.utime(str(root))
    return str(python)


def _take(lock: FileLock, wait_s: float) -> None:
    ends_at = time.monotonic() + wait_s
    if lock.try_to_take():
        return
    say({"log": "waiting for another run that installs the same packages"})
    while not lock.try_to_take():
        if time.monotonic() > ends_at:
            raise Failed("lock_held", f"Another run has held {lock.path} for {wait_s:.0f} s.")
        time.sleep(LOCK_EVERY_S)


def _list_of(root: Path) -> Path:
    return root.with_name(root.name + ".txt")


class _Build:
    """One build of one environment."""

    def __init__(self, request: Mapping[str, Any], root: Path) -> None:
        self._packages: Sequence[str] = request["packages"]
        self._host = request.get("host") or "the host"
        self._root = root
        self._python = str(root / "bin" / "python")
        self._timeout_s = float(request.get("build_timeout_s") or BUILD_S)
        self._ends_at = time.monotonic() + self._timeout_s
        self._environment = {
            **{name: value for name, value in os.environ.items() if name not in _LEADING_ELSEWHERE},
            **(request.get("env") or {}),
            "PIP_USER": "0",
            "PIP_NO_INPUT": "1",
            "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PYTHONNOUSERSITE": "1",
            "PYTHONUNBUFFERED": "1",
            "LC_ALL": "C.UTF-8",
        }
        self._tail: list[str] = []

    def run(self) -> None:
        """Raises Failed, OSError."""
        descriptor = os.open(str(_list_of(self._root)), os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write("".join(f"{package}\n" for package in self._packages))
        say({"log": f"building the environment {self._root.name} for {len(self._packages)} packages"})
        shutil.rmtree(str(self._root), ignore_errors=True)
        # pip is mostly there already, and is then seen from inside; to unpack another one takes seconds.
        self._call(sys.executable, "-m", "venv", "--system-site-packages", "--without-pip", str(self._root))
        self._show_host_packages()
        if run([self._python, "-m", "pip", "--version"], STEP_S, self._environment)[0] != 0:
            self._call(self._python, "-m", "ensurepip")
        self._call(
            self._python, "-m", "pip", "install", "--progress-bar", "off", "-r", str(_list_of(self._root))
        )
        self._mark()

    def _mark(self) -> None:
        temporary = self._root / ".whole"
        built = {"python": sys.executable, "n_packages": len(self._packages)}
        temporary.write_text(json.dumps(built), "utf-8")
        temporary.rename(self._root / WHOLE)

    def _show_host_packages(self) -> None:
        """Where `python` is an environment itself, its packages are the host's: let them be seen as well."""
        code, out = run([sys.executable, "-c", _ASK_SITE], STEP_S)
        folders = json.loads(out.splitlines()[-1]) if code == 0 and out.strip() else []
        code, out = run([self._python, "-c", _ASK_PURELIB], STEP_S)
        if folders and code == 0:
            lines = "".join(f"import site; site.addsitedir({folder!r})\n" for folder in folders)
            Path(out.strip(), "zz_packages_of_the_host.pth").write_text(lines, "utf-8")

    def _call(self, *command: str) -> None:
        """Run a command, say what it says. Raises Failed with its last lines."""
        process = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self._environment,
            cwd="/",
            start_new_session=True,
        )
        assert process.stdout is not None  # noqa: S101 - for the type checker
        self._tail = []
        try:
            with process.stdout as stdout:
                self._follow(stdout.fileno())
            code = process.wait(STEP_S)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(STEP_S)
            raise
        if code != 0:
            raise self._failed(f"it ended with code {code}")

    def _follow(self, descriptor: int) -> None:
        """Say the lines of a pipe as they come, until its end. Raises Failed at the deadline."""
        rest = b""
        with selectors.DefaultSelector() as selector:
            selector.register(descriptor, selectors.EVENT_READ)
            while True:
                left_s = self._ends_at - time.monotonic()
                if left_s <= 0 or not selector.select(left_s):
                    raise self._failed(f"it was not done within {self._timeout_s:.0f} s")
                piece = os.read(descriptor, 65536)
                *lines, rest = (rest + piece).split(b"\n")
                self._say(lines if piece else [rest])
                if not piece:
                    return

    def _say(self, lines: Sequence[bytes]) -> None:
        for raw in lines:
            line = raw.decode("utf-8", "replace").rstrip()[:LONGEST_LINE]
            if line:
                self._tail = [*self._tail, line][-TAIL_LINES:]
                try:
                    say({"log": line})
                except OSError:
                    pass  # whoever asked is gone; the next one finds it built

    def _failed(self, why: str) -> Failed:
        return Failed(
            "packages_failed",
            f"The packages of this backend could not be installed on {self._host}: {why}.",
            "\n".join(self._tail),
            "Look at the list `packages`, at the disk there, and at its way to the package index.",
        )
