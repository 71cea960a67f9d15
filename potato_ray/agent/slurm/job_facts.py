"""What is known of a SLURM job that has ended: from scontrol, squeue, and its slurm.out."""

from __future__ import annotations

import re
from typing import Mapping, NamedTuple

from potato_ray.agent.slurm.states import JobState

_FIELD = re.compile(
    r"(?:^|\s)(JobState|Reason|ExitCode|TimeLimit|NodeList|Restarts|StdOut|MinMemoryNode|MinMemoryCPU)=(\S*)"
)
_CANCELLED = re.compile(r"\*\*\* (?:JOB|STEP) \S+ ON (\S+) CANCELLED AT \S+(?: DUE TO (.+?))? \*\*\*")
_LINE_FAILED = re.compile(r"potato-ray: line (\d+) of the prelude failed with code (\d+)")
_PRELUDE_ENDED = re.compile(r"^potato-ray: the prelude ended the job with code (\d+)", re.MULTILINE)
_SHELL_SAYS = re.compile(r": line \d+: (.+)$")
_NOTHING = ("", "(null)", "None", "None assigned")


class JobFacts(NamedTuple):
    """Texts are "" and numbers 0 where nothing is known.

    `due_to`: why SLURM's own line in slurm.out says that it cancelled the job, such as "TIME LIMIT";
    `cancelled`: whether there is such a line.
    """

    state: str = ""
    reason: str = ""
    code: int = 0
    signal: int = 0
    nodes: str = ""
    time_limit: str = ""
    memory: str = ""
    restarts: int = 0
    output_file: str = ""
    due_to: str = ""
    cancelled: bool = False
    output: str = ""

    @classmethod
    def of(cls, shown: str, output: str, seen: JobState | None = None) -> JobFacts:
        """`shown`: one line of `scontrol show job -o`, `seen`: the last that squeue said of the job."""
        told = {name: "" if text in _NOTHING else text for name, text in _FIELD.findall(shown)}
        state = told.get("JobState") or (seen.state if seen is not None else "")
        reason = told.get("Reason", "") if told.get("JobState") else seen.reason if seen is not None else ""
        code, signal = _two_numbers(told.get("ExitCode", ""))
        lines = _CANCELLED.findall(output)
        node, due_to = lines[-1] if lines else ("", "")
        return cls(
            state=state,
            reason=reason.replace("_", " "),
            code=code,
            signal=signal,
            nodes=told.get("NodeList") or (seen.nodes if seen is not None else "") or node,
            time_limit=told.get("TimeLimit", ""),
            memory=_memory(told),
            restarts=_two_numbers(told.get("Restarts", ""))[0],
            output_file=told.get("StdOut", ""),
            due_to=due_to,
            cancelled=bool(lines),
            output=output,
        )

    @property
    def where(self) -> str:
        """Such as " on node07"; "" where it is not known."""
        return f" on {self.nodes}" if self.nodes else ""

    @property
    def prelude_code(self) -> int | None:
        """The code with which the prelude itself ended the job; None where it did not."""
        found = _PRELUDE_ENDED.search(self.output)
        return int(found.group(1)) if found else None

    @property
    def last_words(self) -> str:
        """The last line of slurm.out that is neither SLURM's nor ours."""
        for line in reversed(self.output.splitlines()):
            if line.strip() and not line.startswith(("slurmstepd", "potato-ray: ")):
                said = _SHELL_SAYS.search(line)
                return (said.group(1) if said else line.strip())[:300]
        return ""


def prelude_failures(output: str) -> list[str]:
    """The lines of a prelude that failed, by what slurm.out says of them, each with the shell's own words."""
    found = []
    before = ""
    for line in output.splitlines():
        failed = _LINE_FAILED.match(line)
        if failed:
            number, code = failed.groups()
            said = _SHELL_SAYS.search(before)
            words = f": {said.group(1)}" if said else ""
            found.append(f"line {number} of its prelude failed with code {code}{words}")
        before = line
    return found


def _memory(told: Mapping[str, str]) -> str:
    """What a job was given, such as "400M" or "100M a CPU"; "" where SLURM limits none."""
    of_node, of_cpu = told.get("MinMemoryNode", "0"), told.get("MinMemoryCPU", "0")
    if of_node.strip("0"):
        return of_node
    return f"{of_cpu} a CPU" if of_cpu.strip("0") else ""


def _two_numbers(text: str) -> tuple[int, int]:
    """ "7:0" is exit code and signal."""
    parts = [int(part) if part.isdigit() else 0 for part in text.split(":")]
    return (parts[0], parts[1] if len(parts) > 1 else 0) if text else (0, 0)
