"""Clearing up after a run: no process of it, no socket, no file is left on the host."""

from __future__ import annotations

import shutil
import socket
import time
from typing import Any, Mapping, Sequence

from potato_ray.host.run_folder import AgentNote, RunFolder, remove_socket_folder
from potato_ray.host.talk import say
from potato_ray.job.folder import ProcessId
from potato_ray.job.follow import Follower
from potato_ray.job.processes import end_marked, is_alive, kill
from potato_ray.job.spare import sweep

SBATCH_S = 75.0
"""For an sbatch that outlives its agent; what it submits has to be there before it can be cancelled."""
WAIT_S = 10.0
"""For the agent to end by itself, once it has told the end of the job."""
KILL_S = 5.0
LOOK_EVERY_S = 0.05


def clear_up(request: Mapping[str, Any]) -> int:
    """Say {"cleared": {"killed", "left", "problem"}}: pids, and what could not be removed ("" for nothing).

    An agent that lives has `wait_s` to end before it is killed. `keep`: the run's folder stays. Where the
    run's SLURM job may go on there is a "goes_on" as well: it has to be cleared up again.
    """
    folder = RunFolder.of(request)
    note = folder.read_note()
    wait_s = request.get("wait_s")
    killed = _end([note.process], WAIT_S if wait_s is None else float(wait_s)) if note is not None else []
    unanswered = _cancel(folder, request)
    killed += _end(_launcher(folder), 0.0)
    left = _end_marked(folder, str(request["run_id"]), int(request["attempt"]))
    if note is not None:
        remove_socket_folder(note.socket)
    sweep(folder.path)
    problem = unanswered or _elsewhere(note) or ("" if request.get("keep") else _remove(folder))
    goes_on = {"goes_on": True} if unanswered else {}
    say({"cleared": {"killed": killed, "left": left, "problem": problem, **goes_on}})
    return 0


def _elsewhere(note: AgentNote | None) -> str:
    """What keeps a run's folder where it is: an agent of which this machine cannot know whether it lives."""
    if note is None or note.process.host == socket.gethostname():
        return ""
    return f"its agent was started on {note.process.host}, and this is {socket.gethostname()}"


def _cancel(folder: RunFolder, request: Mapping[str, Any]) -> str:
    """Cancel the run's SLURM job, where there may be one that goes on; what keeps that from being done."""
    # An exit that no launcher has written was written by an agent, whose cancel SLURM may not have taken.
    has_ended = folder.job.exit.exists() and folder.job.process.exists()
    if has_ended or not folder.job.submission.exists():
        return ""
    # Imported by those alone whose workers SLURM runs.
    from potato_ray.agent.slurm.cancelling import cancel_by_name
    from potato_ray.agent.slurm.commands import Slurm
    from potato_ray.agent.slurm.sbatch_lock import has_ended as sbatch_has_ended
    from potato_ray.agent.slurm.submission import Submission

    try:
        submission = Submission.read(folder.job.path)
    except OSError as failure:
        return f"{failure.filename}: {failure.strerror}"
    if submission is None:
        return ""
    env = {str(name): str(value) for name, value in (request.get("env") or {}).items()}
    slurm = Slurm(env)
    if not submission.job_id and not sbatch_has_ended(folder.job.path, SBATCH_S):
        return "an sbatch of it is still under way"
    problem = cancel_by_name(slurm, submission)
    return f"its SLURM job was not cancelled: {problem}" if problem else ""


def end_process(process: ProcessId, wait_s: float = 0.0) -> bool:
    """Wait for the end of a process, then kill it; whether that was needed."""
    if not _outlives(process, wait_s):
        return False
    kill([process.pid])
    _outlives(process, KILL_S)
    return True


def _end(processes: Sequence[ProcessId], wait_s: float) -> list[int]:
    """The pids of those that had to be killed."""
    return [process.pid for process in processes if end_process(process, wait_s)]


def _outlives(process: ProcessId, wait_s: float) -> bool:
    ends_at = time.monotonic() + wait_s
    while is_alive(process):
        if time.monotonic() >= ends_at:
            return True
        time.sleep(LOOK_EVERY_S)
    return False


def _launcher(folder: RunFolder) -> list[ProcessId]:
    try:
        processes = folder.job.read_processes()
    except (OSError, ValueError, KeyError, TypeError):
        processes = None
    # The launcher first: the kernel ends its worker with it.
    return [processes.launcher, processes.worker] if processes is not None else []


def _end_marked(folder: RunFolder, run_id: str, attempt: int) -> list[int]:
    """Kill what still has the run's mark in its environment; the pids that could not be ended."""
    try:
        left = Follower(folder.job).end_remains()
    except (OSError, ValueError, KeyError, TypeError):
        left = []
    return left or end_marked([f"POTATO_RAY_JOB={run_id}:{attempt}"], patience_s=KILL_S)


def _remove(folder: RunFolder) -> str:
    """What could not be removed, "" for nothing."""
    try:
        shutil.rmtree(str(folder.path))
    except FileNotFoundError:
        pass
    except OSError as failure:
        return f"{failure.filename}: {failure.strerror}"
    return ""
