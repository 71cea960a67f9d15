"""The server of a project on this machine, by the note that it leaves for other commands."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from potato_ray.client.failures import NotFound

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
    """The server that holds a project, named by its task_dir or a file in it. Raises NotFound."""
    path = Path(project)
    task_dir = path if path.is_dir() else path.parent
    note = task_dir / ".potato_ray" / "server.json"
    url = _url_in(note)
    if url is None:
        raise NotFound(
            f"No server has the project {task_dir}.",
            code="no_server",
            evidence=f"No address stands in {note}.",
            next_step="Start one with potato-ray start, name the task_dir, or give the server's address.",
        )
    return FoundServer(url, _made_key(task_dir))


def _url_in(note: Path) -> str | None:
    try:
        body = json.loads(note.read_text("utf-8"))
    except (OSError, ValueError):
        return None
    url = body.get("url") if isinstance(body, dict) else None
    return url if isinstance(url, str) and url else None


def _made_key(task_dir: Path) -> str | None:
    try:
        return (task_dir / "admin_api_key.txt").read_text("utf-8").strip() or None
    except (OSError, ValueError):
        return None
