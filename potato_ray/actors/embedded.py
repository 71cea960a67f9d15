"""Embedded Ray: a cluster of one node inside this process, reachable from this machine alone.

Ray's dashboard process asks for cloud metadata unless `~/ray_bootstrap_config.yaml` exists, so Ray's
processes get a home folder of their own that has one (`restore_home` gives ours the user's home back).
What else keeps Ray to this machine is in switches.py.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import secrets
import shutil
import socket
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import Any

from potato_ray.actors import ray_processes
from potato_ray.actors.switches import set_switches
from potato_ray.job import processes
from potato_ray.job.folder import ProcessId, read_json
from potato_ray.lock import private_folder, write_private

SLOTS_PER_BACKEND = 16
OBJECT_STORE_BYTES = 100_000_000
START_TIMEOUT_S = 60.0

_USER_HOME = "POTATO_RAY_USER_HOME"
_token: str | None = None


def namespace_of(task_dir: Path) -> str:
    """The Ray namespace of a project: a hash of its path."""
    return "potato-ray-" + hashlib.sha256(str(task_dir.resolve()).encode()).hexdigest()[:16]


def gpu_resource(backend: str, slot: int) -> str:
    """The name of the Ray resource that mirrors one card of a backend."""
    return f"gpu:{backend}:{slot}"


def restore_home() -> None:
    """In a Ray worker: give the process the user's own home back."""
    home = os.environ.pop(_USER_HOME, None)
    if home:
        os.environ["HOME"] = home


class EmbeddedRay:
    """Starts and stops the embedded cluster of one project; leaves nothing behind.

    Ray lives in a thread of its own from its start to its end. In the main thread it would replace the
    handler of SIGTERM, and an interrupt in the middle of its start may end this process with a
    segmentation fault; and Ray's processes are killed by the kernel when the thread ends that has
    started them.
    """

    def __init__(self, state_dir: Path, namespace: str) -> None:
        self.state_dir = state_dir
        self.namespace = namespace
        self.address = ""
        self._folder: Path | None = None
        self._servers: tuple[ProcessId, ...] = ()
        self._keeper: threading.Thread | None = None
        self._stopping = threading.Event()

    def start(self, backends: Iterable[str]) -> None:
        """Start Ray with the resources of `backends` declared. Takes 2 to 10 s.

        Raises what Ray raises, or TimeoutError; `stop` is to be called then too.
        """
        private_folder(self.state_dir)
        self._sweep()
        folder = Path(tempfile.mkdtemp(prefix="pr-", dir="/tmp"))  # socket paths must stay short
        self._folder = folder
        write_private(self.state_dir / "ray.json", {**_this_process(), "folder": str(folder)})
        token = self._write_token()
        set_switches()
        os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
        started: Future[str] = Future()
        self._stopping = threading.Event()
        arguments = (folder, list(backends), started, self._stopping)
        self._keeper = threading.Thread(target=self._keep, args=arguments, name="ray", daemon=True)
        self._keeper.start()
        self.address = started.result(timeout=START_TIMEOUT_S)
        self._servers = ray_processes.servers()

    def is_alive(self, timeout_s: float) -> bool:
        """Whether Ray's servers live, and the central one takes connections."""
        if not all(map(processes.is_alive, self._servers)):
            return False
        host, _, port = self.address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=timeout_s).close()
        except OSError:
            return False
        return True

    def _keep(
        self, folder: Path, backends: list[str], started: Future[str], stopping: threading.Event
    ) -> None:
        """The thread that Ray lives in."""
        if stopping.is_set():
            return
        try:
            with _home_of_its_own(folder), _working_in(self.state_dir):
                context = self._init(folder, backends)
        except BaseException as error:  # noqa: BLE001 - raised in the thread that waits
            started.set_exception(error)
        else:
            started.set_result(str(context.address_info["gcs_address"]))
        stopping.wait()
        # Ray is not there when its import has failed.
        ray = sys.modules.get("ray")
        if ray is not None:
            ray.shutdown()

    def _init(self, folder: Path, backends: list[str]) -> Any:
        import ray

        resources = {
            gpu_resource(backend, slot): 1.0 for backend in backends for slot in range(SLOTS_PER_BACKEND)
        }
        # It warns that the main thread's handler of SIGTERM stays in force, which is what the thread is for.
        logging.getLogger("ray._private.worker").setLevel(logging.ERROR)
        return ray.init(
            address="local",
            namespace=self.namespace,
            include_dashboard=False,
            num_cpus=1,
            num_gpus=0,
            object_store_memory=OBJECT_STORE_BYTES,
            resources=resources,
            _temp_dir=str(folder),
            log_to_driver=False,
            configure_logging=False,
        )

    def stop(self) -> None:
        """Stop Ray and remove its session folder, also in the middle of a start: that ends first."""
        if not all(map(processes.is_alive, self._servers)):
            # With one of the two gone, Ray would wait for it for a long time before it ends the other.
            processes.kill(server.pid for server in self._servers if processes.is_alive(server))
        self._servers = ()
        self._stopping.set()
        if self._keeper is not None:
            # Should Ray not end in time, its processes end with this one. A thread whose start was
            # interrupted cannot be waited for; it finds that it is to stop before it does anything.
            with contextlib.suppress(RuntimeError):
                self._keeper.join(START_TIMEOUT_S)
            self._keeper = None
        if self._folder is not None:
            ray_processes.end_session(self._folder)
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        (self.state_dir / "ray.json").unlink(missing_ok=True)

    def _write_token(self) -> Path:
        path = self.state_dir / "ray.token"
        path.unlink(missing_ok=True)
        global _token
        # Ray reads the token once in the life of a process, so a second start must use the same.
        _token = _token or secrets.token_hex(32)
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as handle:
            handle.write(_token)
        return path

    def _sweep(self) -> None:
        """Remove what a killed process has left, processes and folder; the project's lock is ours."""
        try:
            left = read_json(self.state_dir / "ray.json")
        except (ValueError, json.JSONDecodeError):
            left = None
        if left is not None and _is_anothers(left):
            return  # the project was copied from under a living server, its note with it
        folder = Path(str(left["folder"])) if left and "folder" in left else None
        if folder is not None and folder.name.startswith("pr-") and folder.parent == Path("/tmp"):  # noqa: S108
            ray_processes.end_session(folder)
            shutil.rmtree(folder, ignore_errors=True)


def _this_process() -> dict[str, Any]:
    return asdict(processes.identify(os.getpid()) or ProcessId(os.getpid(), 0, socket.gethostname()))


def _is_anothers(note: dict[str, Any]) -> bool:
    """Whether the process that wrote a note of Ray's session lives, and is not this one."""
    try:
        process = ProcessId.from_json(note)
    except (KeyError, ValueError, TypeError):
        return False
    return process.pid != os.getpid() and processes.is_alive(process)


def connect(address: str, token: Path, namespace: str) -> None:
    """Join the embedded cluster that another process on this machine holds."""
    set_switches()
    os.environ["RAY_AUTH_TOKEN_PATH"] = str(token)
    import ray

    ray.init(address=address, namespace=namespace, log_to_driver=False, configure_logging=False)


@contextlib.contextmanager
def _home_of_its_own(folder: Path) -> Iterator[None]:
    home = folder / "home"
    home.mkdir()
    (home / "ray_bootstrap_config.yaml").touch()
    user_home = os.environ.get("HOME")
    os.environ[_USER_HOME] = user_home or str(Path.home())
    os.environ["HOME"] = str(home)
    try:
        yield
    finally:
        os.environ.pop(_USER_HOME, None)
        if user_home is None:
            os.environ.pop("HOME", None)
        else:
            os.environ["HOME"] = user_home


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    # Ray puts the driver's working folder in front of site-packages in its workers: a folder of the
    # user's called `ray/` or `yaml/` would be imported instead of the package.
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
