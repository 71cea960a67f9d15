"""Taking up a run after the connection was lost: whether its agent lives, and what lies on the host."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any, Mapping

from potato_ray.agent.held_job import is_done
from potato_ray.host.clearing import end_process
from potato_ray.host.run_folder import RunFolder
from potato_ray.host.talk import say
from potato_ray.job.follow import Follower


def take_up(request: Mapping[str, Any]) -> int:
    """Say {"take_up": {"agent", "job", "has_artifacts"}}.

    `agent`: {"alive", "at_work", "pid", "start_ticks", "host", "socket"} or None; one that is not at work has
    no secrets yet. `job`: starting, alive, ended or gone (job.follow), done (its end was told), or "". With
    `free_socket` the socket of an agent at work is removed, so that it can be forwarded again: sshd leaves it
    where it is. `end_waiting`: the socket of an agent that is to be ended if it still waits for its secrets.
    """
    folder = RunFolder.of(request)
    note = folder.read_note()
    agent = None
    if note is not None:
        process = note.process
        if request.get("end_waiting") == note.socket and note.lives and not note.at_work:
            end_process(process)
        if request.get("free_socket") and note.lives and note.at_work:
            _remove_socket(Path(note.socket))
        agent = {
            "alive": note.lives,
            "at_work": note.at_work,
            "pid": process.pid,
            "start_ticks": process.start_ticks,
            "host": process.host,
            "socket": note.socket,
        }
    artifacts = folder.job.artifacts
    has_artifacts = artifacts.is_dir() and any(artifacts.iterdir())
    say({"take_up": {"agent": agent, "job": _state(folder), "has_artifacts": has_artifacts}})
    return 0


def _remove_socket(socket: Path) -> None:
    try:
        if stat.S_ISSOCK(socket.lstat().st_mode):
            socket.unlink()
    except FileNotFoundError:
        pass


def _state(folder: RunFolder) -> str:
    if not folder.job.path.is_dir():
        return ""
    if is_done(folder.job.path):
        return "done"
    try:
        return Follower(folder.job).state()
    except (OSError, ValueError, KeyError, TypeError):
        return "gone"
