"""What is known on this side of an attempt on a host: its note in the run's folder, as it goes on."""

from __future__ import annotations

import logging
from dataclasses import asdict, replace

from potato_ray.backends.base import Job, Outcome
from potato_ray.backends.remote_note import RemoteNote, read_note, write_note
from potato_ray.errors import ProjectUnwritable

logger = logging.getLogger(__name__)


class AttemptNote:
    """The note of one attempt, read when this is made; `note` is None as long as nothing is on a host.

    Other processes may follow the run, and write the same note; `read_outcome` looks at what they wrote.
    """

    def __init__(self, job: Job) -> None:
        self._job = job
        self.note = read_note(job.folder, job.attempt)

    @property
    def is_uncleared(self) -> bool:
        """Whether there may be anything of the run on the host."""
        return self.note is not None and not self.note.cleared

    @property
    def keeps_folder(self) -> bool:
        """Whether it was noted that the run's folder stays on the host."""
        return self.note is not None and self.note.keep

    @property
    def has_lost_model(self) -> bool:
        """Whether the run's folder was cleared up, so that no model can come from the host any more."""
        return self.note is not None and self.note.cleared and not self.note.keep

    @property
    def remote_folder(self) -> str:
        """The run's folder on the host; "" as long as there was none."""
        return f"{self.note.remote_dir}/runs/{self._job.run_id}.{self._job.attempt}" if self.note else ""

    def begin(self, host: str, remote_dir: str, code: str, python: str) -> None:
        """The host has said where the run would be. It is written with the first `keep_socket`."""
        self.note = RemoteNote(host, self._job.attempt, remote_dir, code, python, socket="")

    def keep_socket(self, socket: str) -> None:
        """Write it, before anything works over there. Raises ProjectUnwritable."""
        if self.note is not None:
            self._write(replace(self.note, socket=socket))

    def keep_cleared(self) -> None:
        """Write that no process of the run is left over there. Raises ProjectUnwritable."""
        if self.note is not None:
            self._write(replace(self.note, cleared=True))

    def keep_outcome(self, outcome: Outcome, *, keep: bool) -> None:
        """Let whoever comes after us know how the run ended, before anything of it goes; see RemoteNote."""
        if self.note is None:
            return
        try:
            self._write(replace(self.note, outcome=asdict(outcome), keep=keep))
        except ProjectUnwritable as failure:
            logger.warning("run %s: its end could not be noted: %s", self._job.run_id, failure)

    def read_outcome(self) -> Outcome | None:
        """How the run ended where another follower noted it; the note is ours then, or if we had none."""
        note = read_note(self._job.folder, self._job.attempt)
        if note is None or note.outcome is None:
            self.note = self.note or note
            return None
        self.note = note
        return Outcome(**note.outcome)

    def _write(self, note: RemoteNote) -> None:
        try:
            write_note(self._job.folder, note)
        except OSError as failure:
            raise ProjectUnwritable.because(failure, "The run's folder") from failure
        self.note = note
