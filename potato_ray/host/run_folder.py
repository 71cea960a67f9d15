"""What one run has on a host.

REMOTE_DIR/runs/<run_id>.<attempt>/
    agent.lock    held by its agent as long as that lives
    agent.json    which process that is, and where its socket is (see AgentNote)
    agent.log     what it has said
    jobs/<run_id>.<attempt>/    the job folder (agent.held_job), with artifacts/
"""

from __future__ import annotations

import re
import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Mapping

from potato_ray.agent.workdir import Workdir
from potato_ray.host.remote_dir import place
from potato_ray.host.talk import Failed
from potato_ray.job.folder import JobFolder, ProcessId, read_json, write_json
from potato_ray.job.processes import is_alive

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
SOCKET_FOLDER = re.compile(r"/tmp/potato-[A-Za-z0-9_]{8}\Z")  # noqa: S108
"""What a socket's folder may be called; no other folder is removed for one."""


@dataclass(frozen=True)
class AgentNote:
    """An agent's process, and the path of the socket that it reaches the server through.

    `at_work`: it has had its secrets. One that has not is of no use to anybody but who has started it.
    """

    process: ProcessId
    socket: str
    at_work: bool = False

    @property
    def lives(self) -> bool:
        return is_alive(self.process)


class RunFolder:
    """The paths of one run, and the note of its agent."""

    def __init__(self, remote_dir: Path, run_id: str, attempt: int) -> None:
        self.remote_dir = remote_dir
        self.name = f"{run_id}.{attempt}"
        self.path = remote_dir / "runs" / self.name
        self.job = JobFolder(self.path / "jobs" / self.name)

    @classmethod
    def of(cls, request: Mapping[str, Any]) -> RunFolder:
        """The one that a request names. Raises Failed (bad_input)."""
        run_id, attempt = request.get("run_id"), request.get("attempt")
        if not isinstance(run_id, str) or not _RUN_ID.match(run_id) or not isinstance(attempt, int):
            raise Failed("bad_input", "The request names no run.")
        return cls(place(request), run_id, attempt)

    @property
    def log(self) -> Path:
        return self.path / "agent.log"

    def read_note(self) -> AgentNote | None:
        """Which agent is, or was the last one, at this run; None for none."""
        try:
            body = read_json(self.path / "agent.json")
            if not body:
                return None
            return AgentNote(
                ProcessId.from_json(body["process"]), str(body["socket"]), bool(body.get("at_work"))
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def write_note(self, note: AgentNote) -> None:
        """Raises OSError."""
        write_json(self.path / "agent.json", asdict(note))

    def remove_if_unused(self) -> None:
        """Remove it where no job lies in it: nobody may ever come to clear it up. Never fails."""
        if self.job.path.exists():
            return
        aside = self.path.with_name(f".{self.name}.ended")
        try:
            self.path.rename(aside)  # whoever starts another agent meanwhile has a folder of its own
        except OSError:
            return
        shutil.rmtree(str(aside), ignore_errors=True)


def make_socket_folder() -> Path:
    """A fresh folder for one socket, which nobody else can enter, at a short path. Raises OSError."""
    # In /tmp whatever TMPDIR says: the path of a socket has hardly more than a hundred bytes.
    return Path(tempfile.mkdtemp(prefix="potato-", dir="/tmp"))


def remove_socket_folder(socket: str) -> None:
    """Remove the folder of a socket that was made so; any other path stays. Never fails."""
    folder = Path(socket).parent
    if SOCKET_FOLDER.match(str(folder)):
        shutil.rmtree(str(folder), ignore_errors=True)


class HostWorkdir(Workdir):
    """The workdir of an agent that does one run: it shares the code with all others in remote_dir.

    Its lease is given, and never lies on the disk before the job does. Raises AgentMisconfigured
    (workdir_in_use) while another agent is at this run.
    """

    def __init__(self, folder: RunFolder) -> None:
        self._remote_dir = folder.remote_dir
        self.lease = ""
        super().__init__(folder.path)

    @property
    def code(self) -> Path:
        return self._remote_dir / "code"

    def lease_for(self, server: str, backend: str) -> str:
        return self.lease

    def forget_lease(self) -> None:
        """There is no other job."""
