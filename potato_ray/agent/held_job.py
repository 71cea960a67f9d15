"""A job in an agent's hands, as it lies on disk: whatever happens to the agent, the next one goes on.

WORKDIR/jobs/<run_id>.<attempt>/     a job folder (potato_ray.job.folder) with, besides,
    held.json       the job, its lease, and whose it is; mode 0600; gone when the job is done with
    failure.json    what the agent itself met, as it will be told to the server
    bundle.tar.gz   while it is fetched
    done.json       the job is done with; only what is kept lies here
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from potato_ray.agent.job_document import JobDocument
from potato_ray.job.folder import JobFolder, read_json, write_json

VERSION = 1
HELD, FAILURE, DONE = "held.json", "failure.json", "done.json"
BEGINNING = ".new-"
"""How the name of a job folder begins until it is whole."""


@dataclass(frozen=True)
class Failure:
    """Why an agent could not run a job, or bring it to its end; `code` is an error code of runs."""

    code: str
    message: str
    next_step: str


class HeldJob:
    """One job folder of ours. `server` and `backend` say for whom it is done."""

    def __init__(self, path: Path, job: JobDocument, lease: str, server: str, backend: str) -> None:
        self.folder = JobFolder(path)
        self.job = job
        self.lease = lease
        self.server = server
        self.backend = backend
        self.failure = _failure_in(path)

    @classmethod
    def create(cls, jobs: Path, job: JobDocument, lease: str, server: str, backend: str) -> HeldJob:
        """Take a job in hand; its folder appears whole. Raises OSError (a full disk)."""
        path = jobs / job.name
        beginning = Path(tempfile.mkdtemp(prefix=BEGINNING, dir=str(jobs)))
        try:
            (beginning / "artifacts").mkdir()
            body = {"v": VERSION, "server": server, "backend": backend, "lease": lease, "job": job.body}
            write_json(beginning / HELD, body)
            remove(path)  # of an earlier claim of the same attempt, which the server has let go of
            beginning.rename(path)
        except BaseException:
            shutil.rmtree(str(beginning), ignore_errors=True)
            raise
        return cls(path, job, lease, server, backend)

    @classmethod
    def open(cls, path: Path) -> HeldJob:
        """The job that a folder holds. Raises ValueError or OSError when it holds none that can be read."""
        body = read_json(path / HELD)
        if body is None or body.get("v") != VERSION:
            raise ValueError(f"{HELD} is missing or of another version")
        texts = [body.get(name) for name in ("lease", "server", "backend")]
        if not all(isinstance(text, str) for text in texts):
            raise ValueError(f"{HELD} is torn")
        job = JobDocument.from_json(body.get("job"))
        if job.name != path.name:
            raise ValueError(f"{HELD} is of another job, {job.name}")
        return cls(path, job, *map(str, texts))

    @property
    def run_id(self) -> str:
        return self.job.run_id

    @property
    def attempt(self) -> int:
        return self.job.attempt

    @property
    def archive(self) -> Path:
        return self.folder.path / "bundle.tar.gz"

    def fail(self, failure: Failure) -> None:
        """Note what the agent met; the first such note stands. On a full disk it is kept in memory."""
        if self.failure is not None:
            return
        self.failure = failure
        try:
            write_json(self.folder.path / FAILURE, asdict(failure))
        except OSError:
            pass  # the next agent, should there be one, meets the same trouble

    def finish(self, keep: bool) -> None:
        """Be done with the job: let go of the lease, and of all but its model files (`keep`: and the rest).

        Raises OSError; `tidy` goes on with it the next time.
        """
        write_json(self.folder.path / DONE, {"run_id": self.job.run_id, "keep": keep})
        tidy(self.folder.path)

    def discard(self) -> None:
        """Remove it all: the server has let go of this job."""
        remove(self.folder.path)


def is_done(path: Path) -> bool:
    """Whether a folder is one of a job that is done with."""
    return (path / DONE).exists()


def tidy(path: Path) -> None:
    """Clear up the folder of a job that is done with, also where that was broken off."""
    remove(path / HELD)
    keep = bool(_read(path / DONE).get("keep"))
    if not keep and not _holds_files(path / "artifacts"):
        remove(path)
        return
    kept = {DONE, "artifacts"}
    for entry in list(path.iterdir()):
        if entry.name == "bundle.tar.gz" or not (keep or entry.name in kept):
            remove(entry)


def remove(path: Path) -> None:
    """Remove a file, a link or a folder with all in it; one that is not there is no error."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(str(path))
        return
    try:
        path.unlink()
    except FileNotFoundError:
        pass


def _holds_files(folder: Path) -> bool:
    return folder.is_dir() and any(folder.iterdir())


def _failure_in(path: Path) -> Failure | None:
    body = _read(path / FAILURE)
    try:
        return Failure(**body) if body else None
    except TypeError:
        return None


def _read(path: Path) -> dict[str, Any]:
    try:
        return read_json(path) or {}
    except (OSError, ValueError):
        return {}
