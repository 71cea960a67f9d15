"""What squeue says of a job: its state, the reason, and the nodes."""

from __future__ import annotations

import re
from typing import NamedTuple

FORMAT = "%i|%T|%r|%N"
"""For squeue's -o. A reason may hold blanks and commas, but no |."""

FINAL = frozenset(
    """
    BOOT_FAIL CANCELLED COMPLETED DEADLINE FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED REVOKED TIMEOUT
    """.split()  # noqa: SIM905 - names read better without quotes
)
"""States that a job does not leave by itself."""

_NONE = ("", "None", "(null)")
_HELD_AGAIN = (
    "SLURM could not start it, and holds it. A person has to look at the node: cancel the run and start it "
    "again, with `exclude` where it is the same node."
)
_TOO_MUCH = (
    "It asks for more than its partition, account or qos ever gives. A person has to change the backend: "
    "lower what it asks for, or name another partition, account or qos, then start the run again."
)
_NOT_ALLOWED = (
    "Its account or qos may not be used like this. A person has to change the backend's account, qos or "
    "partition, or to ask the cluster's support, then start the run again."
)
_NEEDS_A_PERSON = {
    "jobhelduser": "It is held. A person has to release it with `scontrol release`, or to cancel the run.",
    "jobheldadmin": (
        "An administrator holds it. A person has to ask the cluster's support to release it, or to cancel "
        "the run."
    ),
    "dependencyneversatisfied": (
        "It waits for another job that did not end as was asked for. A person has to look at --dependency "
        "in sbatch_args, then start the run again."
    ),
    "partitiontimelimit": (
        "Its time is longer than its partition allows. A person has to lower `time`, or to name another "
        "partition, then start the run again."
    ),
    "partitionconfig": _TOO_MUCH,
    "partitionnodelimit": _TOO_MUCH,
    "badconstraints": (
        "No node is as it asks. A person has to change constraint, nodelist or gres, then start the run "
        "again."
    ),
    "launch failed requeued held": _HELD_AGAIN,
    "job requeued in held state": _HELD_AGAIN,
    "jobholdmaxrequeue": _HELD_AGAIN,
    "reservationdeleted": (
        "Its reservation is gone. A person has to change `reservation`, then start the run again."
    ),
    "accountnotallowed": _NOT_ALLOWED,
    "qosnotallowed": _NOT_ALLOWED,
    "invalidaccount": _NOT_ALLOWED,
    "invalidqos": _NOT_ALLOWED,
}
# Limits for a single job are met by waiting never, unlike those for all the jobs of somebody.
_PER_JOB = re.compile(r"(qos|assoc)max\w*perjob(limit)?|qosmin\w*")


class JobState(NamedTuple):
    """A job as squeue saw it at `at` (epoch seconds UTC); `state` is "" while it has not been looked for."""

    state: str
    reason: str = ""
    nodes: str = ""
    at: float = 0.0

    @property
    def final(self) -> bool:
        """Whether the job has ended."""
        return self.state in FINAL


NOT_SEEN = JobState("")
"""What is known of a job between its submission and the first look."""


def parse(text: str, at: float = 0.0) -> dict[str, JobState]:
    """The jobs in squeue's output of FORMAT by their ids; other lines (names of clusters) are left out."""
    found: dict[str, JobState] = {}
    for line in text.splitlines():
        parts = [part.strip() for part in line.split("|")]
        if len(parts) < 4 or not re.fullmatch(r"\d+", parts[0], re.ASCII):
            continue
        reason = "|".join(parts[2:-1])
        found[parts[0]] = JobState(parts[1], "" if reason in _NONE else reason, parts[-1], at)
    return found


def in_words(job_id: str, state: JobState) -> str:
    """Such as `SLURM job 4242: PENDING (Priority)`, `SLURM job 4242: RUNNING on node07`."""
    reason = f" ({state.reason})" if state.reason else ""
    nodes = f" on {state.nodes}" if state.nodes else ""
    return f"SLURM job {job_id}: {state.state or 'submitted'}{reason}{nodes}"


def needs_a_person(state: JobState) -> str:
    """Why a waiting job never starts by itself, and what to do; "" where waiting is enough."""
    if state.state not in ("PENDING", "SPECIAL_EXIT"):
        return ""
    reason = state.reason.replace("_", " ").strip().lower()
    if reason in _NEEDS_A_PERSON:
        return _NEEDS_A_PERSON[reason]
    if state.state == "SPECIAL_EXIT":
        return _HELD_AGAIN
    return _TOO_MUCH if _PER_JOB.fullmatch(reason) else ""
