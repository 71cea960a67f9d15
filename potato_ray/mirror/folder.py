"""The files of a mirror beside those of every job folder.

claim.json      who has the run in hand: attempt, the lease's sha256, the agent  (the controller)
lease.json      the lease itself, where the server starts the agent; mode 0600   (the controller)
job.json        the job as the agent gets it; there once it can be fetched       (the controller)
bundle.tar.gz   the bundle, packed; goes at the run's end                        (the controller)
notes.jsonl     what the agent itself says, one note a line                      (the agent's requests)
notes.told      how many bytes of notes.jsonl the run's log has              (whoever follows the run)
heartbeat       touched at each good request of the agent; says whether a worker lives
agent.log       the end of the agent's own log, when the run is over
result.json     the end as the agent tells it; written last
started.json    when a worker was first heard of there, by the server's clock
mirror.json     whose attempt and lease all of this is
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from potato_ray.errors import FULL
from potato_ray.job.folder import JobFolder, read_json, write_json
from potato_ray.shipping.bundle_archive import NAME as BUNDLE_ARCHIVE

WORKING, WAITING = "working", "waiting"
"""What a heartbeat says: a worker lives, or none does (yet, or any more). Of one length: see `beat`."""


@dataclass(frozen=True)
class ClaimNote:
    """claim.json: the attempt that an agent has in hand. `claimed_at` is epoch seconds UTC."""

    attempt: int
    lease_sha256: str
    agent: Mapping[str, Any] = field(default_factory=dict)
    claimed_at: float = 0.0


class MirrorFolder(JobFolder):
    """The paths of one mirror. Its small files are written aside and renamed."""

    @property
    def claim(self) -> Path:
        return self.path / "claim.json"

    @property
    def lease(self) -> Path:
        return self.path / "lease.json"

    @property
    def job(self) -> Path:
        return self.path / "job.json"

    @property
    def bundle_archive(self) -> Path:
        return self.path / BUNDLE_ARCHIVE

    @property
    def notes(self) -> Path:
        return self.path / "notes.jsonl"

    @property
    def notes_told(self) -> Path:
        return self.path / "notes.told"

    @property
    def agent_log(self) -> Path:
        return self.path / "agent.log"

    @property
    def started(self) -> Path:
        return self.path / "started.json"

    @property
    def result(self) -> Path:
        return self.path / "result.json"

    def read_claim(self) -> ClaimNote | None:
        """Who has the run in hand; None where nobody has, or the file is torn. Raises OSError."""
        try:
            body = read_json(self.claim)
            return ClaimNote(**body) if body is not None else None
        except (ValueError, TypeError):
            return None

    def write_claim(self, claim: ClaimNote) -> None:
        """Give the run to an agent. Raises OSError."""
        body = {"attempt": claim.attempt, "lease_sha256": claim.lease_sha256}
        write_json(self.claim, {**body, "agent": dict(claim.agent), "claimed_at": claim.claimed_at})

    def read_lease(self, attempt: int) -> str | None:
        """The lease that the server has made for that attempt; None where it has not. Raises OSError."""
        try:
            body = read_json(self.lease)
        except ValueError:
            return None
        return str(body["lease"]) if body is not None and body.get("attempt") == attempt else None

    def write_lease(self, attempt: int, lease: str) -> None:
        """Keep the lease for the agent that the server will start; for us alone. Raises OSError."""
        write_json(self.lease, {"attempt": attempt, "lease": lease})

    def read_job(self, attempt: int) -> dict[str, Any] | None:
        """The job of that attempt, once it can be fetched. Raises OSError."""
        try:
            body = read_json(self.job)
        except ValueError:
            return None
        return body if body is not None and body.get("attempt") == attempt else None

    def read_result(self) -> dict[str, Any] | None:
        """The end as the agent told it; None where it has not. Raises OSError."""
        try:
            return read_json(self.result)
        except ValueError:
            return None

    def read_end(self, attempt: int) -> dict[str, Any] | None:
        """The end of that attempt; one of another attempt, or of another agent, is none. Raises OSError."""
        result = self.read_result()
        if result is None or result.get("attempt") != attempt:
            return None
        claim = self.read_claim()
        known = "" if claim is None else claim.lease_sha256
        return None if known and result.get("lease_sha256") != known else result

    def note_start(self, now: float) -> None:
        """Note that a worker has started, at the latest at `now` (epoch seconds UTC); once.

        Raises OSError; on a full disk it is to be noted later, as `beat` has it.
        """
        if self.started.exists():
            return
        try:
            write_json(self.started, {"at": now})
        except OSError as failure:
            if failure.errno not in FULL:
                raise

    def read_start(self) -> float | None:
        """When a worker was first heard of; None where none was. Raises OSError."""
        try:
            body = read_json(self.started)
            return None if body is None else float(body["at"])
        except (ValueError, KeyError, TypeError):
            return None

    def read_notes_told(self) -> int:
        """How many bytes of notes.jsonl have been passed on; 0 where that cannot be told."""
        try:
            return int(self.notes_told.read_text("ascii"))
        except (OSError, ValueError):
            return 0

    def write_notes_told(self, n_bytes: int) -> None:
        """Remember how many that are; not durably, as what is told twice does no harm. Raises OSError."""
        aside = self.notes_told.with_name(f".{self.notes_told.name}.new")
        aside.write_text(str(n_bytes), "ascii")
        aside.replace(self.notes_told)

    def says_working(self) -> bool:
        """Whether the agent said with its last word that a worker lives."""
        try:
            return self.heartbeat.read_text("ascii", "replace") == WORKING
        except FileNotFoundError:
            return False

    def beat(self, working: bool | None = None) -> None:
        """Note that the agent was heard of now, and whether a worker lives (None: as before).

        Raises OSError; a full disk is no reason, as it would count as the agent's silence.
        """
        descriptor = os.open(self.heartbeat, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            os.utime(descriptor)
            if working is not None:
                os.pwrite(descriptor, (WORKING if working else WAITING).encode("ascii"), 0)
        except OSError as failure:
            if failure.errno not in FULL:
                raise
        finally:
            os.close(descriptor)

    def clear(self) -> None:
        """Remove what an earlier attempt left, before the next one is given out. Raises OSError."""
        self.forget_sent()
        for path in (self.claim, self.lease, self.job, self.bundle_archive, self.cancel):
            path.unlink(missing_ok=True)

    def forget_sent(self) -> None:
        """Remove what an agent has sent. Raises OSError."""
        for path in (self.result, self.exit, self.stderr, self.agent_log, self.predictions, self.notes):
            path.unlink(missing_ok=True)
        for path in (self.events, self.started, self.notes_told):
            path.unlink(missing_ok=True)
