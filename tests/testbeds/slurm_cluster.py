"""A real SLURM for the length of a `with` block: a controller and two nodes on this machine, all its own.

Each node has two GPUs that are none: SLURM gives out character devices by their numbers. Partitions: debug
(the default), short (two minutes at most), high, whose jobs end those of lowcancel and lowrequeue.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import pytest
from parts import missing
from slurm_job import SlurmJob, happens
from sshd import is_running

BESIDE = Path(__file__).parent
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "slurmctld", "slurmd", "munged", "mungekey")
PACKAGES = "slurmctld slurmd slurm-client munge"
MISLEADING = ("SBATCH_", "SCANCEL_", "SQUEUE_", "SINFO_", "SLURM_")
"""How the variables begin by which SLURM's commands are told to do something else."""
TIMEOUT_S = 60.0
N_TRIES = 3
LETTERS = "abcdefghijkmnopqrstuvwxyz"
# Ends with whoever started it, so that a test process that is killed leaves no daemon behind.
AT_THE_END = 'cat; exec "$0" "$1" --purge'


class SlurmCluster:
    """Its daemons are called "slurmctld", "munged", and as the `nodes` are. `conf`: lines for slurm.conf.

    It is SLURM's own user that runs it, whoever that is: only root's takes jobs of others.
    """

    def __init__(self, conf: str = "", *, n_nodes: int = 2, n_gpus: int = 2) -> None:
        # Cgroups are named after nodes: no two clusters may have one of the same name.
        prefix = "n" + "".join(secrets.choice(LETTERS) for _ in range(5))
        self.nodes = tuple(f"{prefix}{number}" for number in range(1, n_nodes + 1))
        self._settings = {
            "SLURM_TEST_NODES": str(n_nodes),
            "SLURM_TEST_PREFIX": prefix,
            "SLURM_TEST_GPUS": str(n_gpus),
            "SLURM_TEST_CPUS": "8",
            "SLURM_TEST_CONF": conf,
        }
        self._n_jobs = 0
        self._warden: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> SlurmCluster:
        _need_slurm()
        for left in reversed(range(N_TRIES)):
            try:
                self._open()
                break
            except RuntimeError:
                # Somebody else may have taken one of its ports meanwhile.
                self.close()
                if not left:
                    raise
            except BaseException:
                self.close()
                raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def env(self) -> dict[str, str]:
        """What SLURM's commands need in their environment to find this cluster."""
        return {"SLURM_CONF": str(self.folder / "slurm.conf")}

    @property
    def signals_script_alone(self) -> bool:
        """Whether a cancel tells a job's script alone, as where SLURM tracks processes by cgroups."""
        return "proctrack/cgroup" in self._conf

    @property
    def limits_memory(self) -> bool:
        """Whether a job that takes more memory than it has asked for is ended."""
        return "task/cgroup" in self._conf

    def use(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Let the code under test find this cluster."""
        for name in [name for name in os.environ if name.startswith(MISLEADING)]:
            monkeypatch.delenv(name)
        for name, value in self.env.items():
            monkeypatch.setenv(name, value)

    def run(self, *command: str, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
        """Run one of SLURM's commands, with `env` besides, however it ends."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(MISLEADING)}
        return subprocess.run(
            command,
            env={**kept, **self.env, **(env or {})},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=TIMEOUT_S,
        )

    def ask(self, *command: str) -> str:
        """What one of SLURM's commands says on stdout. Raises RuntimeError when it fails."""
        done = self.run(*command)
        if done.returncode:
            raise RuntimeError(f"{command}: {done.stderr}")
        return done.stdout.strip()

    def submit(self, script: str, *flags: str) -> SlurmJob:
        """Submit a shell script, in a new folder of its own; its output goes to slurm.out there."""
        self._n_jobs += 1
        folder = self.folder / "jobs" / str(self._n_jobs)
        folder.mkdir(parents=True)
        text = script if script.startswith("#!") else f"#!/bin/sh\n{script}\n"
        (folder / "job.sh").write_text(text)
        places = (f"--chdir={folder}", f"--output={folder}/slurm.out")
        job_id = self.ask("sbatch", "--parsable", *places, *flags, str(folder / "job.sh"))
        return SlurmJob(self.ask, job_id, folder)

    def job(self, job_id: str, folder: Path) -> SlurmJob:
        """A job that somebody else has submitted; `folder` holds its slurm.out."""
        return SlurmJob(self.ask, job_id, folder)

    def set_node(self, node: str, state: str) -> None:
        """Change a node's state: down, drain, resume."""
        self.ask("scontrol", "update", f"nodename={node}", f"state={state}", "reason=test")

    @contextlib.contextmanager
    def set(self, line: str) -> Iterator[None]:
        """One more line in slurm.conf for the length of a `with` block."""
        conf = self.folder / "slurm.conf"
        before = conf.read_text()
        conf.write_text(f"{before}{line}\n")
        try:
            self.ask("scontrol", "reconfigure")
            yield
        finally:
            conf.write_text(before)
            self.ask("scontrol", "reconfigure")

    def signal(self, daemon: str, number: int) -> None:
        """Send a signal to one of the daemons."""
        os.kill(self._pid(daemon), number)

    def stop(self, daemon: str) -> None:
        """Shut one of the daemons down. The jobs of a node live on."""
        self._end(daemon, signal.SIGTERM)

    def kill(self, daemon: str) -> None:
        """kill -9 of one of them: slurmctld forgets its last seconds, munged leaves its socket behind."""
        self._end(daemon, signal.SIGKILL)

    def start(self) -> None:
        """Start again those of the daemons that are gone."""
        self._start("--no-wait")

    @contextlib.contextmanager
    def without(self, daemon: str) -> Iterator[None]:
        """One of the daemons is shut down for the length of a `with` block."""
        self.stop(daemon)
        try:
            yield
        finally:
            self.start()

    @contextlib.contextmanager
    def hung(self, daemon: str) -> Iterator[None]:
        """One of the daemons does nothing for the length of a `with` block."""
        if daemon == "slurmctld":  # just started it does not listen yet, and would be as good as gone
            _wait(lambda: " is UP" in self.run("scontrol", "ping").stdout, "slurmctld does not answer")
        self.signal(daemon, signal.SIGSTOP)
        try:
            yield
        finally:
            self.signal(daemon, signal.SIGCONT)

    def clear(self) -> None:
        """No job is left, and every node takes new ones, as at the start."""
        ids = set(self.ask("squeue", "--noheader", "--format=%A").split())
        if ids:
            self.run("scancel", *ids)
            _wait(lambda: not self.ask("squeue", "--noheader", "--format=%A"), "a job does not end")
        self.have_nodes_back()

    def have_nodes_back(self) -> None:
        """Every node takes jobs."""
        for line in self.ask("sinfo", "--noheader", "--Node", "--format=%N %T").splitlines():
            node, state = line.split()
            if state.startswith(("down", "drain")):
                # One that has come back by itself meanwhile refuses, and that is as good.
                self.run("scontrol", "update", f"nodename={node}", "state=resume")

    def close(self) -> None:
        """End the daemons and their jobs, and remove every file."""
        warden, self._warden = self._warden, None
        if warden is not None and warden.stdin is not None:
            warden.stdin.close()
            warden.wait(TIMEOUT_S)

    @property
    def _conf(self) -> str:
        return (self.folder / "slurm.conf").read_text()

    def _open(self) -> None:
        # Short, since sockets lie in it; and everybody may pass, or munged refuses it.
        self.folder = Path(tempfile.mkdtemp(prefix="prt-slurm-", dir="/tmp"))
        self.folder.chmod(0o755)
        self._warden = subprocess.Popen(
            ["sh", "-c", AT_THE_END, str(BESIDE / "stop_slurm.sh"), str(self.folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            start_new_session=True,
        )
        self._settings["SLURM_TEST_PORT"] = str(_free_ports(len(self.nodes) + 1))
        self._start()

    def _start(self, *options: str) -> None:
        command = (str(BESIDE / "start_slurm.sh"), str(self.folder), *options)
        done = self.run(*command, env=self._settings)
        if done.returncode:
            raise RuntimeError(f"SLURM did not start: {done.stderr}")

    def _end(self, daemon: str, number: int) -> None:
        pid = self._pid(daemon)
        os.kill(pid, number)
        _wait(lambda: not is_running(pid), f"{daemon} is still there")

    def _pid(self, daemon: str) -> int:
        files = {"munged": "munge/munged.pid", "slurmctld": "run/slurmctld.pid"}
        return int((self.folder / files.get(daemon, f"run/slurmd-{daemon}.pid")).read_text())


def _need_slurm() -> None:
    path = f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"
    lacking = [name for name in COMMANDS if shutil.which(name, path=path) is None]
    if lacking:
        missing(f"{', '.join(lacking)}: not installed (Debian, Ubuntu: {PACKAGES})")


def _free_ports(n: int) -> int:
    """The first of `n` ports in a row on which nobody listens, and from which nobody is called."""
    for _ in range(50):
        first = 20_000 + secrets.randbelow(12_000)
        with contextlib.ExitStack() as stack, contextlib.suppress(OSError):
            for port in range(first, first + n):
                stack.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return first
    raise RuntimeError(f"there are no {n} free ports in a row")


def _wait(condition: Callable[[], bool], complaint: str) -> None:
    if not happens(condition):
        raise RuntimeError(complaint)
