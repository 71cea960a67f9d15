"""The server of a project on this machine, by the note that it leaves for other commands.

Whoever is found here is sent the admin key. So the note of a server that has died, or of one on another
machine that shares the folder, counts for nothing: something else may listen on that port here.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potato_ray.client.failures import Conflict, NotFound
from potato_ray.client.place import Place

VARIABLE = "POTATO_ADMIN_API_KEY"


def key_from_environment() -> str | None:
    return os.environ.get(VARIABLE) or None


@dataclass(frozen=True)
class FoundServer:
    """Where a server is, and the admin key that a start without one has made."""

    url: str
    made_key: str | None = field(default=None, repr=False)

    def key_or(self, api_key: str | None) -> str | None:
        """The key to use: the one that was given, the environment's, or the one that was made."""
        return api_key or key_from_environment() or self.made_key


def find_server(project: str | os.PathLike[str]) -> FoundServer:
    """The server that holds a project, named by its task_dir or a file in it.

    Raises NotFound, and Conflict (project_in_use) when it cannot be reached from this machine.
    """
    path = Path(project)
    task_dir = path if path.is_dir() else path.parent
    url = _url_of(task_dir / ".potato_ray")
    if url is None:
        raise NotFound(
            f"No server has the project {task_dir}.",
            code="no_server",
            evidence=f"None that holds it has its address in {task_dir / '.potato_ray' / 'server.json'}.",
            next_step="Start one with potato-ray start, name the task_dir, or give the server's address.",
        )
    return FoundServer(url, _made_key(task_dir))


def _url_of(state_dir: Path) -> str | None:
    # Imported where a project lies on this machine: it needs a kernel with flock, as servers do.
    from potato_ray.lock import SERVING, holder

    try:
        note = holder(state_dir)
    except OSError:
        return None
    return reachable_url(note) if note is not None and note.get("purpose") == SERVING else None


def is_here(note: Mapping[str, Any]) -> bool:
    """Whether the holder that left this note runs on this machine."""
    return note.get("host") == socket.gethostname()


def reachable_url(note: Mapping[str, Any]) -> str | None:
    """Where the server that left this note is; None before it says so.

    Raises Conflict (project_in_use) when that leads nowhere from this machine.
    """
    url = note.get("url")
    if not isinstance(url, str) or not url:
        return None
    if is_here(note) or not Place.of(url, None).is_loopback:
        return url
    host = note.get("host", "which is not named")
    raise Conflict(
        f"The project is served on another machine, {host}.",
        code="project_in_use",
        evidence=f"Its server listens on {url}, which cannot be reached from here.",
        next_step="Do it on that machine, or with the Python client through an ssh tunnel to it.",
    )


def _made_key(task_dir: Path) -> str | None:
    try:
        return (task_dir / "admin_api_key.txt").read_text("utf-8").strip() or None
    except (OSError, ValueError):
        return None
