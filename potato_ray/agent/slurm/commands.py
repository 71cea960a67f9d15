"""SLURM's commands on a login node: sbatch, squeue, scancel, scontrol.

What they say is believed only when they have reached SLURM. A controller that is down or hangs, and a
munge that is dead, are known by their texts alone: exit codes are the same as for an unknown job.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
from pathlib import Path
from typing import Mapping, NamedTuple, Sequence

from potato_ray.agent.errors import AgentError
from potato_ray.agent.slurm.states import FORMAT, JobState, parse
from potato_ray.job.environment import inherited

TIMEOUT_S = 75.0
"""For one command. A controller that is down takes 18 s to tell, one that hangs 20, a wrong SLURM_CONF 59."""
LEAST_TIMEOUT_S = 20.0
LONGEST_CHARS = 500
"""Of SLURM's words in a message."""
_HEAD_CHARS, _CUT = 200, " … "
NEEDED = ("sbatch", "squeue", "scancel")
"""scontrol is asked where there is one."""
UNKNOWN_JOB = "Invalid job id specified"

_PURPOSES = {
    "sbatch": "submit jobs",
    "squeue": "follow jobs",
    "scancel": "cancel jobs",
    "scontrol": "ask how jobs ended",
}
_AWAY = re.compile(
    "|".join(
        (
            "Unable to contact slurm controller",
            "Unable to establish control(ler)? machine",
            "getaddrinfo",
            "Unable to resolve",
            "Socket timed out",
            "Zero Bytes were transmitted or received",
            "If munged is up",
            "Munge (en|de)code failed",
            "Did you start munged",
            "Protocol authentication error",
            "Could not establish a configuration source",
            "cannot stat file .*retrying in",
            "standby mode",
            "temporarily unable to accept job",
            "Resource temporarily unavailable",
            "Communication connection failure",
            "Message (send|receive) failure",
            "Connection (refused|reset by peer|timed out)",
            "Problem talking to database",
        )
    ),
    re.IGNORECASE | re.DOTALL,
)
_PREFIX = re.compile(r"^(?:sbatch|squeue|scancel|scontrol|slurm_\w+):? (?:error|fatal): ", re.MULTILINE)
_DROPPED = ("SQUEUE_", "SBATCH_", "SCANCEL_", "SCONTROL_", "SALLOC_", "SRUN_", "SLURM_", "SLURMD_")
# Which SLURM it is, and who we are to it; all else filters answers, or is of a job around this agent.
_KEPT = frozenset({"SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_JWT"})
_REAP_S = 1.0


class Said(NamedTuple):
    """What a command answered: exit code, stdout, stderr."""

    code: int
    out: str
    err: str

    @property
    def words(self) -> str:
        """What it complained of, without the commands' prefixes; of many words the first and the last."""
        lines = (line.strip() for line in _PREFIX.sub("", self.err.strip() or self.out.strip()).splitlines())
        words = "; ".join(line for line in lines if line)
        if len(words) <= LONGEST_CHARS:
            return words
        # The reason comes last, behind what was tried before.
        return words[:_HEAD_CHARS] + _CUT + words[_HEAD_CHARS + len(_CUT) - LONGEST_CHARS :]


class SlurmAway(AgentError):
    """SLURM was not reached, so nothing is known: what was asked for may have been done all the same."""

    default_code = "slurm_away"


class SlurmCommandMissing(AgentError):
    """The login node lacks one of SLURM's commands."""

    default_code = "slurm_command_missing"


class Slurm:
    """The commands as a backend sees them. `env` is the backend's; PATH in it says where they are.

    `base` is the agent's own environment, `host` how messages name this machine. Every command runs for
    `timeout_s` at most, and not less than 20 s unless a test says so.
    """

    def __init__(
        self,
        env: Mapping[str, str] | None = None,
        *,
        base: Mapping[str, str] | None = None,
        host: str = "",
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        self.host = host or socket.gethostname()
        self.timeout_s = timeout_s
        self._environment = {**_cleaned(os.environ if base is None else base), **(env or {})}

    def find(self, name: str) -> str:
        """The path of a command. Raises SlurmCommandMissing."""
        path = shutil.which(name, path=self._environment.get("PATH", os.defpath))
        if path is None:
            raise SlurmCommandMissing(
                f"{self.host} has no {name} on PATH, so it cannot {_PURPOSES[name]}.",
                next_step="Name a login node of the cluster, or set PATH in the backend's env.",
            )
        return path

    def has(self, name: str) -> bool:
        """Whether there is such a command."""
        try:
            return bool(self.find(name))
        except SlurmCommandMissing:
            return False

    def sbatch(self, *arguments: str, folder: Path, keeps: Sequence[int] = ()) -> Said:
        """Submit, from `folder`. Raises SlurmAway, after which the job may be there all the same.

        The descriptors that it `keeps` stay open as long as it runs, also when this process is killed.
        """
        return self._run("sbatch", arguments, folder=folder, keeps=keeps)

    def squeue(self, *arguments: str, cluster: str = "") -> Said:
        """Raises SlurmAway; a code other than 0 is that of a job that SLURM does not know, or of misuse."""
        return self._run("squeue", arguments, cluster)

    def scancel(self, *arguments: str, cluster: str = "") -> Said:
        """Raises SlurmAway. It answers 0 for jobs that have ended, or are unknown, as well."""
        return self._run("scancel", arguments, cluster)

    def scontrol(self, *arguments: str, cluster: str = "") -> Said:
        """Raises SlurmAway."""
        return self._run("scontrol", arguments, cluster)

    def jobs(self, *selection: str, at: float = 0.0, cluster: str = "") -> dict[str, JobState]:
        """The jobs that squeue has for a selection such as "-j", "1,2", finished ones among them, by id.

        A job that is not there is unknown to SLURM. `at` is the time that the states carry. Raises SlurmAway,
        also for words that are not understood: from a call that failed, no absence is concluded.
        """
        said = self.squeue("-h", "-t", "all", "-o", FORMAT, *selection, cluster=cluster)
        if said.code == 0:
            return parse(said.out, at)
        if UNKNOWN_JOB in said.err:
            return {}
        raise self._failed("squeue", said)

    def show_job(self, job_id: str, cluster: str = "") -> str:
        """`scontrol show job` of a job in one line; "" where there is no scontrol or SLURM has forgotten it.

        Raises SlurmAway, also for words that are not understood.
        """
        if not self.has("scontrol"):
            return ""
        said = self.scontrol("show", "job", "-o", job_id, cluster=cluster)
        if said.code == 0:
            return said.out.strip()
        if UNKNOWN_JOB in said.err:
            return ""
        raise self._failed("scontrol", said)

    def _run(
        self,
        name: str,
        arguments: tuple[str, ...],
        cluster: str = "",
        folder: Path | None = None,
        keeps: Sequence[int] = (),
    ) -> Said:
        command = [self.find(name), *(["-M", cluster] if cluster else []), *arguments]
        said = self._answer(name, command, folder, keeps)
        if said.code < 0:
            raise self._away(name, f"it was ended by signal {-said.code}")
        if said.code != 0 and _AWAY.search(said.err):
            raise self._away(name, said.words)
        return said

    def _answer(self, name: str, command: list[str], folder: Path | None, keeps: Sequence[int]) -> Said:
        try:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=self._environment,
                cwd=str(folder) if folder is not None else "/",
                start_new_session=True,
                pass_fds=tuple(keeps),
            )
        except OSError as failure:
            raise self._away(name, f"it could not be started: {failure.strerror}") from failure
        try:
            out, err = process.communicate(timeout=self.timeout_s)
        except subprocess.TimeoutExpired:
            _abandon(process)
            raise self._away(name, f"it did not answer within {self.timeout_s:g} s") from None
        return Said(process.returncode, out.decode("utf-8", "replace"), err.decode("utf-8", "replace"))

    def _failed(self, name: str, said: Said) -> SlurmAway:
        return self._away(name, said.words or f"it ended with code {said.code}")

    def _away(self, name: str, words: str) -> SlurmAway:
        return SlurmAway(
            f"SLURM does not answer {name} on {self.host}.",
            evidence=f"{words}." if words else "",
            next_step="It is asked again; should it last, look at `scontrol ping` there.",
        )


def _cleaned(base: Mapping[str, str]) -> dict[str, str]:
    """An environment whose settings change no answer, and that holds no secret of ours."""
    return {
        name: value
        for name, value in inherited(base, everything=True).items()
        if name in _KEPT or not name.startswith(_DROPPED)
    }


def _abandon(process: subprocess.Popen[bytes]) -> None:
    """Kill it and what it started, but never wait for it long."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
    try:
        process.wait(_REAP_S)
    except subprocess.TimeoutExpired:
        pass
