"""kill -9 of what a run on a host needs, on both sides; the two share a machine in tests."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

from killing import command_of, kill
from ssh_cut_lab import SshCutLab
from ssh_fault_matrix import AGENT, BOTH, HOST, KEEPER, LAUNCHER, SESSION, SSH, SUPERVISOR, WORKER

from potato_ray.job import processes
from potato_ray.job.folder import JobFolder, Processes

SOON_S = 15.0
DOWN_S = 3.0
"""How long a host takes to come up again."""


def strike(lab: SshCutLab, run_id: str, victim: str) -> None:
    """Kill the victim, and see it gone. A host comes back after a while."""
    if victim == SESSION:
        lab.sshd.end_sessions()
    elif victim == SUPERVISOR:
        kill(lab.server, victim)
    elif victim == HOST:
        reboot(lab, run_id)
    else:
        see_killed(_pids(lab, run_id, victim))


def _pids(lab: SshCutLab, run_id: str, victim: str) -> list[int]:
    if victim == AGENT:
        return [lab.agent_pid(run_id)]
    if victim in (WORKER, LAUNCHER):
        working = working_for(lab, run_id)
        launcher = [working.launcher.pid] if victim == LAUNCHER else []
        return [*launcher, working.worker.pid]
    keepers = [pid for pid in lab.server.processes() if "ssh/keeper.py" in command_of(pid)]
    masters = [child for pid in keepers for child in processes.descendants(pid)]
    return {KEEPER: keepers, SSH: masters, BOTH: [*keepers, *masters]}[victim]


def working_for(lab: SshCutLab, run_id: str) -> Processes:
    """The launcher and the worker of a run."""
    working = JobFolder(lab.job(run_id)).read_processes()
    assert working is not None
    return working


def reboot(lab: SshCutLab, run_id: str) -> None:
    """Everything there ends at once, what lies in /tmp is gone, and sshd is back after a while."""
    socket = Path(lab.agent_note(run_id)["socket"])
    lab.sshd.end_sessions()
    see_killed([*_pids(lab, run_id, LAUNCHER), *_pids(lab, run_id, AGENT)])
    lab.sshd.stop()
    shutil.rmtree(socket.parent, ignore_errors=True)
    time.sleep(DOWN_S)
    lab.sshd.start()


def see_killed(pids: list[int]) -> None:
    """kill -9 of processes that there are, and of nothing that ends meanwhile."""
    known = [process for process in map(processes.identify, pids) if process is not None]
    assert known
    for process in known:
        if processes.is_alive(process):
            os.kill(process.pid, signal.SIGKILL)
    deadline = time.monotonic() + SOON_S
    while any(map(processes.is_alive, known)):
        assert time.monotonic() < deadline, f"{pids} survive SIGKILL"
        time.sleep(0.01)
