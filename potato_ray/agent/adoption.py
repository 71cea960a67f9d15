"""What an agent finds in its workdir when it starts: jobs of the agent before it, to be brought to an end."""

from __future__ import annotations

import shlex
from pathlib import Path

from potato_ray.agent.held_job import BEGINNING, HELD, HeldJob, is_done, remove, tidy
from potato_ray.agent.voice import Voice
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import ALIVE, Follower

_OF_SLURM = (
    "its worker is a job of SLURM. To take it up, start an agent in this folder with --slurm-config as before"
)


def held_jobs(jobs: Path, server: str, backend: str, voice: Voice, *, submits: bool = False) -> list[HeldJob]:
    """The jobs in hand for this backend of this server, those that run first. Never fails.

    What is left of others is cleared up; what is not ours, or torn, is named and left. So are jobs of SLURM,
    unless the agent `submits` its jobs there.
    """
    found: list[HeldJob] = []
    for path in sorted(jobs.iterdir()):
        try:
            held = _look(path, voice)
        except (OSError, ValueError) as failure:
            voice.say(f"{path} is left as it is: {failure}")
            continue
        if held is None:
            continue
        if (held.server, held.backend) != (server, backend):
            voice.say(f"{path} is left as it is: {_of_another(held, server)}")
        elif held.folder.submission.exists() and not submits:
            voice.say(f"{path} is left as it is: {_OF_SLURM}")
        else:
            found.append(held)
    return sorted(found, key=lambda held: not _runs(path=held.folder.path))


def _of_another(held: HeldJob, server: str) -> str:
    """Whose a job is that is not ours, and how it is taken up."""
    options = f"--backend {shlex.quote(held.backend)}"
    if held.server != server:
        options = f"--server {shlex.quote(held.server)} {options}"
    runs_on = ""
    if _runs(held.folder.path):
        runs_on = (
            f"; its worker runs, and ends by itself after {held.job.lost_after_s:.0f} s without its agent"
        )
    return (
        f"it is a job of backend {held.backend} of {held.server}{runs_on}. To take it up, start an agent "
        f"in this folder with {options}"
    )


def _look(path: Path, voice: Voice) -> HeldJob | None:
    """The job in a folder, None when there is none any more. Raises ValueError or OSError for a torn one."""
    if path.name.startswith(BEGINNING):
        remove(path)  # its agent died before it had the job in hand; the claim is made again
        return None
    if path.is_symlink() or not path.is_dir():
        raise ValueError("it is no folder of a job")
    if is_done(path):
        tidy(path)
        return None
    if not (path / HELD).exists():
        raise ValueError(f"it holds no {HELD}")
    try:
        return HeldJob.open(path)
    except ValueError:
        _stop_nameless(path, voice)
        raise


def _stop_nameless(path: Path, voice: Voice) -> None:
    """End a worker that nobody can report on."""
    if _runs(path):
        voice.say(f"the worker in {path} is ended: nobody can tell any more whose it is")
        JobFolder(path).request_cancel("nobody can tell any more whose job this is", 0.0)


def _runs(path: Path) -> bool:
    try:
        return Follower(JobFolder(path)).state() == ALIVE
    except (OSError, ValueError, KeyError, TypeError):
        return False
