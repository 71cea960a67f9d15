"""Embedded Ray keeps to this machine, keeps its token to its owner, and leaves nothing behind."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from parts import need_command

from potato_ray.actors.embedded import EmbeddedRay, gpu_resource, namespace_of, restore_home
from potato_ray.job.folder import read_json

pytestmark = pytest.mark.ray

LISTEN = "0A"
LOOPBACK = re.compile(r"^(0100007F|0000000000000000FFFF00000100007F|00000000000000000000000001000000)$")


@pytest.fixture
def state_dir() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
    yield folder / "state"
    shutil.rmtree(folder, ignore_errors=True)


def listening() -> set[tuple[str, str]]:
    """(address, inode) of every listening TCP socket, as /proc has them."""
    rows = [
        line.split()
        for name in ("tcp", "tcp6")
        for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    return {(row[1].rpartition(":")[0], row[9]) for row in rows if row[3] == LISTEN}


def session_folder(state_dir: Path) -> Path:
    """Where the cluster that was started last keeps its session."""
    note = read_json(state_dir / "ray.json")
    assert note is not None
    return Path(note["folder"])


class Running:
    """A cluster that has been started, and what that has changed in this process and on this machine."""

    def __init__(self, cluster: EmbeddedRay) -> None:
        self.state_dir = cluster.state_dir
        before, handler = listening(), signal.getsignal(signal.SIGTERM)
        cluster.start(["local"])
        self.opened = listening() - before
        self.handles_sigterm_as_before = signal.getsignal(signal.SIGTERM) == handler


@pytest.fixture(scope="class")
def running() -> Iterator[Running]:
    """One for all that only look at it: a process holds one Ray at a time."""
    folder = Path(tempfile.mkdtemp(prefix="prt-", dir="/tmp"))
    with contextlib.ExitStack() as left:
        left.callback(shutil.rmtree, folder, ignore_errors=True)
        cluster = EmbeddedRay(folder / "state", "a-test")
        left.callback(cluster.stop)
        yield Running(cluster)


@pytest.mark.alone  # ports of other tests would be taken for Ray's
class TestARunningRay:
    def test_has_every_port_on_loopback(self, running: Running) -> None:
        assert running.opened
        assert [address for address, _ in running.opened if not LOOPBACK.match(address)] == []

    def test_keeps_its_token_readable_by_its_owner_alone(self, running: Running) -> None:
        assert stat.S_IMODE((running.state_dir / "ray.token").stat().st_mode) == 0o600
        assert stat.S_IMODE(running.state_dir.stat().st_mode) == 0o700

    def test_leaves_the_callers_handler_of_sigterm_in_force(self, running: Running) -> None:
        assert running.handles_sigterm_as_before

    def test_runs_tasks_with_the_users_home_and_with_slots_for_gpus(self, running: Running) -> None:
        import ray

        @ray.remote(num_cpus=0, resources={gpu_resource("local", 3): 1})
        def home_after_restoring() -> str:
            restore_home()
            return os.environ["HOME"]

        assert ray.get(home_after_restoring.remote(), timeout=30) == os.environ["HOME"]


def test_starts_and_stops_leave_no_session_folder(state_dir: Path) -> None:
    used = set()
    for _ in range(10 if os.environ.get("POTATO_RAY_LONG") else 2):
        cluster = EmbeddedRay(state_dir, "a-test")
        cluster.start(["local"])
        used.add(session_folder(state_dir))
        cluster.stop()
    assert len(used) > 1
    assert [folder for folder in used if folder.exists()] == []
    assert [path.name for path in state_dir.iterdir()] == ["ray.token"]


def test_a_killed_process_leaves_its_session_folder_to_the_next_start(state_dir: Path) -> None:
    kill_a_process_that_holds_ray(state_dir)
    left = session_folder(state_dir)
    assert left.exists()
    cluster = EmbeddedRay(state_dir, "a-test")
    cluster.start([])
    assert session_folder(state_dir) != left
    cluster.stop()
    assert not left.exists()


def kill_a_process_that_holds_ray(state_dir: Path) -> None:
    program = (
        "import os, signal, sys; from pathlib import Path\n"
        "from potato_ray.actors.embedded import EmbeddedRay\n"
        "EmbeddedRay(Path(sys.argv[1]), 'a-test').start([]); os.kill(os.getpid(), signal.SIGKILL)"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(state_dir)], timeout=60, check=False, capture_output=True
    )


def test_namespaces_differ_by_project() -> None:
    assert namespace_of(Path("/a/project")) != namespace_of(Path("/another/project"))


def test_nothing_outside_this_machine_is_asked(state_dir: Path) -> None:
    need_command("strace")
    program = (
        "import sys; from pathlib import Path\n"
        "from potato_ray.actors.embedded import EmbeddedRay\n"
        "cluster = EmbeddedRay(Path(sys.argv[1]), 'a-test'); cluster.start(['local']); cluster.stop()"
    )
    trace = state_dir.parent / "trace"
    command = ["strace", "-f", "-qq", "-e", "trace=connect,sendto,sendmsg", "-o", str(trace), sys.executable]
    subprocess.run([*command, "-c", program, str(state_dir)], timeout=200, check=True, capture_output=True)
    asked = [
        line
        for line in trace.read_text("utf-8", "replace").splitlines()
        if "sin_addr" in line or "sin6_addr" in line
    ]
    assert asked, "the trace shows no connection at all, so it proves nothing"
    assert [line for line in asked if not is_local(line)] == []


def is_local(line: str) -> bool:
    addresses = re.findall(r'inet_addr\("([^"]+)"\)|inet_pton\(AF_INET6, "([^"]+)"', line)
    return all((four or six).startswith(("127.", "::1", "::ffff:127.")) for four, six in addresses)


def test_a_stop_in_the_middle_of_a_start_leaves_nothing(state_dir: Path) -> None:
    cluster = EmbeddedRay(state_dir, "a-test")

    def interrupt(number: int, frame: object) -> None:
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, 0.5)
    try:
        with pytest.raises(InterruptedError):
            cluster.start([])
    finally:
        cluster.stop()
        signal.signal(signal.SIGALRM, before)
    assert not (state_dir / "ray.json").exists()
    assert "ray" not in {thread.name for thread in threading.enumerate()}


def test_a_stop_before_the_thread_of_ray_runs_leaves_nothing_for_it_to_do(
    state_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = EmbeddedRay(state_dir, "a-test")
    late: list[threading.Thread] = []

    def interrupted(thread: threading.Thread) -> None:
        late.append(thread)
        raise InterruptedError

    with monkeypatch.context() as patched:
        patched.setattr("potato_ray.actors.embedded.threading.Thread.start", interrupted)
        with pytest.raises(InterruptedError):
            cluster.start([])
        cluster.stop()
    [thread] = late
    thread.start()
    thread.join(5.0)
    assert not thread.is_alive()
    assert [path.name for path in state_dir.iterdir()] == ["ray.token"]
