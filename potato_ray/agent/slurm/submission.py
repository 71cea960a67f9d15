"""Giving a job to SLURM once, whatever happens meanwhile to SLURM or to the agent.

JOBDIR/job.sh       the script; mode 0600
JOBDIR/slurm.json   the job's name, written before sbatch, and its id, written after
JOBDIR/sbatch.lock  held as long as an sbatch may still submit it

A job's name is its own alone. An agent that was killed in between finds the job again by it, and so does one
whose sbatch was not answered: it may have been heard all the same. Nobody looks while an sbatch is under way.
"""

from __future__ import annotations

import os
import re
import secrets
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Callable

from potato_ray.agent.errors import Stopped
from potato_ray.agent.held_job import Failure
from potato_ray.agent.launching import NotLaunched
from potato_ray.agent.patience import Patience, Stop
from potato_ray.agent.slurm.commands import Slurm, SlurmAway, SlurmCommandMissing
from potato_ray.agent.slurm.refusals import CODE, no_answer, no_id, refusal
from potato_ray.agent.slurm.sbatch_lock import SbatchLock
from potato_ray.agent.slurm.script import SCRIPT, cluster_of
from potato_ray.job.folder import JobFolder, read_json, write_json

NOTE = "slurm.json"
VERSION = 1
PATIENCE_S = 300.0
"""How long SLURM may be away when a job is to be submitted."""
SETTLE_S = 5.0
"""Between two looks for a job that may have been submitted; one alone could come too early."""
UNDER_WAY_S = 180.0
"""How long an sbatch whose agent was killed is waited for; it tries for two minutes while SLURM is busy."""
_LOCK_EVERY_S = 0.5
_FIRST_WAIT_S, _LONGEST_WAIT_S = 2.0, 30.0
_ID = re.compile(r"^(\d+)(?:;(\S+))?\s*$", re.ASCII | re.MULTILINE)


class NotSubmitted(NotLaunched):
    """SLURM has no job of ours; `failure` is what the server will be told."""


@dataclass(frozen=True)
class Submission:
    """A job by its name; `job_id` is "" until it is known, `cluster` "" for the login node's own.

    Several clusters, with commas between, are those of which one takes the job.
    """

    name: str
    job_id: str = ""
    cluster: str = ""

    @property
    def key(self) -> str:
        """ID, or ID;CLUSTER, as sbatch prints it."""
        return f"{self.job_id};{self.cluster}" if self.cluster else self.job_id

    @property
    def clusters(self) -> list[str]:
        """Those that may have it."""
        return self.cluster.split(",")

    @classmethod
    def of(cls, run: str) -> Submission:
        """A new one for a run and its attempt, such as "run-7.1"."""
        plain = re.sub(r"[^A-Za-z0-9._-]", "_", run)
        return cls(f"potato-{plain}-{secrets.token_hex(4)}")

    @classmethod
    def read(cls, folder: Path) -> Submission | None:
        """The one of a job folder; None where none was begun. Raises OSError."""
        try:
            body = read_json(folder / NOTE) or {}
        except ValueError:
            return None
        texts = [body.get(key, "") for key in ("name", "job_id", "cluster")]
        if not all(isinstance(text, str) for text in texts) or not texts[0]:
            return None
        return cls(*texts)

    def write(self, folder: Path) -> None:
        """Raises OSError."""
        write_json(folder / NOTE, {"v": VERSION, **asdict(self)})


def submit(
    slurm: Slurm,
    folder: Path,
    run: str,
    script: Callable[[str], str],
    stop: Stop,
    *,
    patience_s: float = PATIENCE_S,
    clock: Callable[[], float] = time.monotonic,
) -> Submission:
    """Submit the job of a job folder, unless it was; `script` makes job.sh for a job's name.

    `run` is the run and its attempt, `clock` monotonic seconds. Raises NotSubmitted, OSError;
    Stopped, after which the job may be there: see `find`.
    """
    before = Submission.read(folder)
    if before is not None and before.job_id:
        return before
    submission = before or Submission.of(run)
    text = script(submission.name)
    # Noted first, too: an sbatch that does not answer does not say where the job is.
    submission = replace(submission, cluster=submission.cluster or cluster_of(text))
    submission.write(folder)
    _write_private(folder / SCRIPT, text)
    tries = _Tries(slurm, folder, submission, stop, patience_s, clock)
    submitted = tries.run(doubtful=before is not None)
    submitted.write(folder)
    return submitted


def find(slurm: Slurm, submission: Submission) -> Submission | None:
    """The job of that name with its id; None where SLURM knows none. Raises SlurmAway."""
    for cluster in submission.clusters:
        found = slurm.jobs("-n", submission.name, cluster=cluster)
        if found:
            return replace(submission, job_id=min(found, key=int), cluster=cluster)
    return None


class _Tries:
    """All that is done for one submission, until it has succeeded or is given up."""

    def __init__(
        self,
        slurm: Slurm,
        folder: Path,
        submission: Submission,
        stop: Stop,
        patience_s: float,
        clock: Callable[[], float],
    ) -> None:
        self._slurm = slurm
        self._folder = folder
        self._submission = submission
        self._stop = stop
        self._patience_s = patience_s
        self._clock = clock
        self._patience = Patience(stop, first_s=_FIRST_WAIT_S, longest_s=_LONGEST_WAIT_S, clock=clock)

    def run(self, doubtful: bool) -> Submission:
        """`doubtful`: whether the job may be there already."""
        while True:
            try:
                lock = SbatchLock(self._folder)
                with lock:
                    self._take(lock)
                    return (self._look() if doubtful else None) or self._sbatch(lock)
            except SlurmCommandMissing as missing:
                raise NotSubmitted(Failure(CODE, missing.message, missing.next_step)) from missing
            except SlurmAway as away:
                self._wait(away)
                doubtful = True

    def _take(self, lock: SbatchLock) -> None:
        """Wait until no sbatch is under way; a lock that a dead machine has left is let be."""
        ends_at = self._clock() + UNDER_WAY_S
        while not lock.try_to_take() and self._clock() < ends_at:
            self._pause(_LOCK_EVERY_S)

    def _look(self) -> Submission | None:
        found = find(self._slurm, self._submission)
        if found is None:
            self._pause(SETTLE_S)
            found = find(self._slurm, self._submission)
        return found

    def _sbatch(self, lock: SbatchLock) -> Submission:
        self._pause(0.0)
        # The name goes before one in sbatch_args: the job is found by it.
        name = f"--job-name={self._submission.name}"
        script = str(self._folder / SCRIPT)
        said = self._slurm.sbatch("--parsable", name, script, folder=self._folder, keeps=lock.descriptors)
        if said.code != 0:
            raise NotSubmitted(refusal(said.words, self._slurm.host))
        match = _ID.search(said.out)
        if match is not None:
            return replace(
                self._submission, job_id=match.group(1), cluster=match.group(2) or self._submission.cluster
            )
        found = self._look()
        if found is None:
            raise NotSubmitted(no_id(said.out.strip(), self._slurm.host))
        return found

    def _wait(self, away: SlurmAway) -> None:
        left_s = self._patience_s - self._patience.failing_for_s
        if left_s <= 0:
            raise NotSubmitted(self._given_up(away)) from away
        self._pause(min(left_s, self._patience.next_wait_s()))

    def _pause(self, seconds: float) -> None:
        if self._stop.is_set() or (seconds and self._stop.wait(seconds)):
            raise Stopped("The agent was told to stop while it submitted a job to SLURM.")

    def _given_up(self, away: SlurmAway) -> Failure:
        # A job that came to SLURM all the same is not to train for nobody.
        JobFolder(self._folder).request_cancel("its agent gave up waiting for SLURM", 0.0)
        words = away.evidence or away.message
        return no_answer(self._submission.name, self._slurm.host, self._patience.failing_for_s, words)


def _write_private(path: Path, text: str) -> None:
    """Write a file that holds the backend's env."""
    aside = path.with_name(f".{path.name}.new")
    descriptor = os.open(str(aside), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8", errors="surrogateescape") as file:
        os.fchmod(file.fileno(), 0o600)
        file.write(text)
    os.replace(str(aside), str(path))
