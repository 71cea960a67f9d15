"""The job folder: the contract between whoever runs a worker and whoever watches it.

This is the only place that knows the file names. Every file but the logs and events.jsonl is written
aside and renamed, so a reader sees it whole or not at all.

    spec.json      what to do (spec.py)              written before the launcher starts
    bundle/        the frozen data                   read-only
    launcher.lock  held by the launcher as long as it lives; a folder serves one launch
    launcher.log   what the launcher itself had to say (empty when all is well)
    process.json   launcher and worker: pid, start time, host (see Processes)
    heartbeat      touched by the launcher each second
    lease          touched by whoever follows the run; too old -> the launcher ends the worker
    cancel.json    {"reason", "grace_s"}: a request to stop, written by the follower; empty on a full disk
    stopping.json  {"reason", "t", "detail"}: the launcher has begun to stop the worker
    events.jsonl   what the worker says, one JSON object a line (events.py)
    stdout.log, stderr.log
    exit.json      the end (see Exit); written last, when no process of the group is left
    artifacts/     model files, model_card.json, calibration.json, predictions.jsonl
    answers.jsonl  each annotator's answers to the held-out items; for the server alone, never shipped
    scores.json    the held-out scores; for the server alone
    mistakes.json  the wrong held-out predictions that people look at; for the server alone
"""

from __future__ import annotations

import errno
import json
import os
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Mapping

REASONS = ("wall_clock", "cancelled", "out_of_memory", "lost", "terminated")
"""Why a launcher stops a worker; terminated: the launcher itself got a SIGTERM that nobody of us sent."""


@dataclass(frozen=True)
class Exit:
    """How a worker ended.

    `code` is its exit code or None, `signal` the signal that ended it or None. `reason` is why the
    launcher stopped it (one of REASONS), or "" when it ended by itself. `peak_rss_mb` is the highest
    resident memory seen of it and its descendants, in MiB. Times are epoch seconds UTC. `detail` is a
    sentence of evidence, with figures.
    """

    code: int | None
    signal: int | None
    reason: str = ""
    peak_rss_mb: float = 0.0
    started_at: float = 0.0
    ended_at: float = 0.0
    detail: str = ""


@dataclass(frozen=True)
class ProcessId:
    """A process that can be told from a later one with the same pid: by its start time in clock ticks.

    These count from the machine's start: `boot` is the kernel's name of that, "" where it is not known.
    """

    pid: int
    start_ticks: int
    host: str
    boot: str = field(default="", compare=False)

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> ProcessId:
        """Raises KeyError, TypeError, ValueError; what a later version adds is passed over."""
        boot = body.get("boot")
        return cls(
            int(body["pid"]),
            int(body["start_ticks"]),
            str(body["host"]),
            boot if isinstance(boot, str) else "",
        )


@dataclass(frozen=True)
class Processes:
    """process.json: who works on this folder.

    `markers` are environment entries (NAME=value) that every process of the job inherits; `started_at`
    is the worker's start in epoch seconds UTC.
    """

    launcher: ProcessId
    worker: ProcessId
    started_at: float
    markers: tuple[str, ...] = ()
    python: str = ""

    @classmethod
    def from_json(cls, body: dict[str, Any]) -> Processes:
        values = dict(body, markers=tuple(body.get("markers", ())))
        values["launcher"] = ProcessId.from_json(body["launcher"])
        values["worker"] = ProcessId.from_json(body["worker"])
        return cls(**values)


class JobFolder:
    """The paths of one job folder, and atomic reads and writes of its small files."""

    def __init__(self, path: os.PathLike[str] | str) -> None:
        self.path = Path(path)

    @property
    def spec(self) -> Path:
        return self.path / "spec.json"

    @property
    def bundle(self) -> Path:
        return self.path / "bundle"

    @property
    def lock(self) -> Path:
        return self.path / "launcher.lock"

    @property
    def launcher_log(self) -> Path:
        return self.path / "launcher.log"

    @property
    def process(self) -> Path:
        return self.path / "process.json"

    @property
    def heartbeat(self) -> Path:
        return self.path / "heartbeat"

    @property
    def lease(self) -> Path:
        return self.path / "lease"

    @property
    def cancel(self) -> Path:
        return self.path / "cancel.json"

    @property
    def submission(self) -> Path:
        """The SLURM job that is the job's worker, where an agent has submitted it: see agent.slurm."""
        return self.path / "slurm.json"

    @property
    def stopping(self) -> Path:
        return self.path / "stopping.json"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def stdout(self) -> Path:
        return self.path / "stdout.log"

    @property
    def stderr(self) -> Path:
        return self.path / "stderr.log"

    @property
    def exit(self) -> Path:
        return self.path / "exit.json"

    @property
    def artifacts(self) -> Path:
        return self.path / "artifacts"

    @property
    def predictions(self) -> Path:
        return self.artifacts / "predictions.jsonl"

    @property
    def answers(self) -> Path:
        return self.path / "answers.jsonl"

    @property
    def scores(self) -> Path:
        return self.path / "scores.json"

    @property
    def mistakes(self) -> Path:
        return self.path / "mistakes.json"

    def read_exit(self) -> Exit | None:
        """The end of the worker, or None while it has none."""
        body = read_json(self.exit)
        return Exit(**body) if body is not None else None

    def write_exit(self, end: Exit) -> None:
        write_json(self.exit, asdict(end))

    def read_processes(self) -> Processes | None:
        """Launcher and worker, or None while they have not started."""
        body = read_json(self.process)
        return Processes.from_json(body) if body is not None else None

    def write_processes(self, processes: Processes) -> None:
        write_json(self.process, asdict(processes))

    def request_cancel(self, reason: str, grace_s: float) -> None:
        """Ask the launcher to stop the worker; a second request changes nothing."""
        if self.cancel.exists():
            return
        try:
            write_json(self.cancel, {"reason": reason, "grace_s": grace_s})
        except OSError as failure:
            if failure.errno not in (errno.ENOSPC, errno.EDQUOT):
                raise
            # An empty file needs no block of the disk, and is a request all the same.
            self.cancel.touch()


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a small JSON file, or None when there is no such file."""
    try:
        text = path.read_text("utf-8")
    except FileNotFoundError:
        return None
    body = json.loads(text)
    if not isinstance(body, dict):
        raise ValueError(f"{path} holds no JSON object")
    return body


def write_json(path: Path, body: dict[str, Any]) -> None:
    """Write a small JSON file durably: aside, fsync, rename."""
    descriptor, temporary = tempfile.mkstemp(dir=str(path.parent), prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as handle:
            json.dump(body, handle, ensure_ascii=True, indent=1)
            handle.flush()
            os.fsync(handle.fileno())
        os.replace(temporary, str(path))
    except BaseException:
        os.unlink(temporary)
        raise
