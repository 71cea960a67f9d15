"""A job of a real SLURM, as its user sees it: what scontrol shows of it, and its slurm.out."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from pathlib import Path

TIMEOUT_S = 60.0
POLL_S = 0.05
PASSING = frozenset({"PENDING", "CONFIGURING", "RUNNING", "SUSPENDED", "STOPPED", "COMPLETING", "REQUEUED"})
"""States after which there is another."""
_FIELD = re.compile(r"(\S+?)=(.*?)(?=\s+[A-Z][\w/:]*=|\s*$)", re.DOTALL)


class SlurmJob:
    """`ask` runs a command of the cluster's and returns what it says; `folder` is where slurm.out lies."""

    def __init__(self, ask: Callable[..., str], job_id: str, folder: Path) -> None:
        self._ask = ask
        self.id = job_id
        self.folder = folder

    @property
    def out(self) -> str:
        """The text of slurm.out so far; "" where there is no such file."""
        try:
            return (self.folder / "slurm.out").read_text(errors="replace")
        except FileNotFoundError:
            return ""

    @property
    def shown(self) -> str:
        """What scontrol shows of it, in one line."""
        return self._ask("scontrol", "--oneliner", "show", "job", self.id)

    @property
    def fields(self) -> dict[str, str]:
        """The same, by name: JobState, Reason, ExitCode."""
        return dict(_FIELD.findall(self.shown))

    @property
    def end(self) -> tuple[str, str, str]:
        """Its last state, the reason and the exit code, once it has ended."""
        self.ends()
        fields = self.fields
        return fields["JobState"], fields["Reason"], fields["ExitCode"]

    @property
    def queue_row(self) -> str:
        """`STATE|REASON|NODES`, as squeue shows it, whether it has ended or not."""
        return self._ask("squeue", "--noheader", "--states=all", f"--jobs={self.id}", "--format=%T|%r|%N")

    def becomes(self, state: str) -> None:
        """Wait until it is in that state."""
        self._wait(lambda: self.fields["JobState"] == state, f"is not {state}")

    def waits_for(self, *reasons: str) -> None:
        """Wait until it is PENDING for one of these reasons, in squeue's words."""
        rows = {f"PENDING|{reason}|" for reason in reasons}
        self._wait(lambda: self.queue_row in rows, f"does not wait for {' or '.join(reasons)}")

    def says(self, text: str) -> None:
        """Wait until that text stands in slurm.out."""
        self._wait(lambda: text in self.out, f"does not say {text!r}")

    def ends(self) -> None:
        """Wait until it has ended."""
        self._wait(lambda: self.fields["JobState"] not in PASSING, "does not end")

    def run_out_of_time(self) -> None:
        """Set its time limit to now; SLURM looks at those twice a minute."""
        self._ask("scontrol", "update", f"jobid={self.id}", "EndTime=now")

    def cancel(self, *flags: str) -> None:
        """scancel."""
        self._ask("scancel", *flags, self.id)

    def release(self) -> None:
        """Let a held one start."""
        self._ask("scontrol", "release", self.id)

    def _wait(self, condition: Callable[[], bool], complaint: str) -> None:
        if not happens(condition):
            raise RuntimeError(f"SLURM job {self.id} {complaint}: {self.shown}\n{self.out}")


def happens(condition: Callable[[], bool]) -> bool:
    """Wait until it is so; False when it is not so for long."""
    ends_at = time.monotonic() + TIMEOUT_S
    while not condition():
        if time.monotonic() > ends_at:
            return False
        time.sleep(POLL_S)
    return True
