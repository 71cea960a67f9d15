"""How SLURM's jobs stand: one squeue an interval for all jobs of a backend, however many agents follow them.

looks.json   the last look: when, at which jobs, what squeue said, which clusters were away
looks.lock   held by the agent that asks; put aside when it is held for far too long
jobs/<job>   an empty file for each job that somebody follows, touched as long as that is so
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import socket
import time
from dataclasses import dataclass, field, replace
from itertools import groupby
from pathlib import Path
from typing import Any, Callable, Mapping

from potato_ray.agent.file_lock import FileLock
from potato_ray.agent.slurm.commands import Slurm, SlurmAway
from potato_ray.agent.slurm.states import NOT_SEEN, JobState
from potato_ray.job.folder import read_json, write_json

VERSION = 2
AT_ONCE = 500
"""The most jobs in one command."""
FORGOTTEN_AFTER = 12
"""Intervals after which nobody follows a job any more whose file was not touched."""
FORGOTTEN_AFTER_S = 120.0
"""The least time for that; a command that hangs keeps an agent from touching its file."""
ABSENT_LOOKS = 2
"""In how many looks on end a job has to be missing until SLURM is believed to have forgotten it."""

_WHICH = ("SLURM_CONF", "SLURM_CONF_SERVER")
"""What leads commands to another SLURM than the machine's own."""
_SAID = ("message", "code", "evidence", "next_step")
"""Of a SlurmAway, for all agents."""


@dataclass(frozen=True)
class Look:
    """What one look saw. `at`: epoch seconds UTC, `absent`: how often on end a job was not there.

    `away`: the words of a cluster that was not reached, by its name; what was seen of it before stands then.
    """

    at: float = 0.0
    states: dict[str, JobState] = field(default_factory=dict)
    absent: dict[str, int] = field(default_factory=dict)
    away: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def from_json(cls, body: Any) -> Look:
        """Raises KeyError, TypeError, ValueError."""
        if body["v"] != VERSION:
            raise ValueError("a look of another version")
        states = {
            key: JobState(str(state), str(reason), str(nodes), float(at))
            for key, (state, reason, nodes, at) in body["states"].items()
        }
        absent = {key: int(n) for key, n in body["absent"].items()}
        away = {cluster: {name: str(said[name]) for name in _SAID} for cluster, said in body["away"].items()}
        return cls(float(body["at"]), states, absent, away)

    def as_json(self) -> dict[str, Any]:
        states = {key: list(state) for key, state in self.states.items()}
        return {"v": VERSION, "at": self.at, "states": states, "absent": self.absent, "away": self.away}

    def of(self, key: str) -> JobState | None:
        """Raises SlurmAway when this look did not reach the job's cluster."""
        said = self.away.get(_cluster_of(key))
        if said is not None:
            raise SlurmAway(**said)
        if self.absent.get(key, 0) >= ABSENT_LOOKS:
            return None
        return self.states.get(key, NOT_SEEN)


class Looks:
    """The looks of one agent. `folder` is for all agents that ask this SLURM, `clock` epoch seconds UTC."""

    def __init__(
        self,
        slurm: Slurm,
        folder: Path,
        poll_interval_s: float,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self._slurm = slurm
        self._interval_s = poll_interval_s
        self._clock = clock
        self._folder = folder
        self._jobs = folder / "jobs"
        self._last = Look()
        self._touched: dict[str, float] = {}
        self._waits_since: float | None = None
        self._waits_for: tuple[int, int] | None = None

    def look(self, key: str) -> JobState | None:
        """How the job ID or ID;CLUSTER stands; None: SLURM does not know it any more.

        states.NOT_SEEN: nobody has looked since it was submitted. Raises SlurmAway, and OSError where the
        shared folder cannot be used. When it is this agent's turn to ask, it takes as long as squeue does:
        a minute where SLURM hangs.
        """
        self._follow(key)
        if not self._is_fresh(self._last):
            self._last = self._newest()
        if self._is_fresh(self._last):
            self._waits_since = None
        else:
            self._ask_if_nobody_does(self._jobs / key)
        return self._last.of(key)

    def forget(self, key: str) -> None:
        """Nobody here follows the job any more."""
        self._touched.pop(key, None)
        try:
            (self._jobs / key).unlink()
        except OSError:
            pass  # it is passed over once it is old

    def _follow(self, key: str) -> None:
        now = self._clock()
        if not 0 <= now - self._touched.get(key, float("-inf")) < self._interval_s:
            if key not in self._touched:
                # With the first look alone: what is removed meanwhile, with all else, does not come back.
                self._jobs.mkdir(0o700, parents=True, exist_ok=True)
            (self._jobs / key).touch(0o600)
            self._touched[key] = now

    def _is_fresh(self, look: Look) -> bool:
        # One from the future was left by a clock that has been set back since.
        return 0 <= self._clock() - look.at < self._interval_s

    def _newest(self) -> Look:
        """The last look of all agents, or of this one where no other can be read."""
        try:
            found = Look.from_json(read_json(self._folder / "looks.json") or {})
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return self._last
        return self._last if self._is_fresh(self._last) else found

    def _ask_if_nobody_does(self, own: Path) -> None:
        lock = FileLock(self._folder / "looks.lock")
        if not lock.try_to_take():
            if not self._has_waited_long(lock.path):
                return
            # Who holds it is stopped, or was on a login node that has died.
            lock.path.unlink(missing_ok=True)
            if not lock.try_to_take():
                return
        self._waits_since = None
        with lock:
            self._last = self._newest()
            if not self._is_fresh(self._last):
                seen = self._asked(self._last, self._followed(own))
                # Who was stopped meanwhile, and whose place somebody took, has seen what is old by now.
                if lock.is_in_place:
                    self._last = seen
                    self._tell()

    def _has_waited_long(self, lock: Path) -> bool:
        """Whether who asks has had time for it twice over, and no answer has come."""
        now, held = self._clock(), _identity(lock)
        if self._waits_since is None or now < self._waits_since or held != self._waits_for:
            # Another lock is that of somebody who has waited as long, and asks now.
            self._waits_since, self._waits_for = now, held
        return now - self._waits_since >= 2 * self._slurm.timeout_s + 3 * self._interval_s

    def _tell(self) -> None:
        try:
            write_json(self._folder / "looks.json", self._last.as_json())
        except OSError:
            pass  # a full disk: this agent knows, and the others ask for themselves

    def _asked(self, before: Look, followed: list[str]) -> Look:
        asked = Look()
        for cluster, group in groupby(followed, key=_cluster_of):
            keys = list(group)
            asked.states.update({key: before.states[key] for key in keys if key in before.states})
            absent = {key: before.absent.get(key, 0) for key in keys}
            try:
                found = self._found(cluster, keys)
            except SlurmAway as away:
                # Those of other clusters have nothing to do with it.
                asked.away[cluster] = {name: str(getattr(away, name)) for name in _SAID}
                asked.absent.update(absent)
                continue
            asked.states.update(found)
            asked.absent.update({key: n + 1 for key, n in absent.items() if key not in found})
        return replace(asked, at=self._clock())

    def _found(self, cluster: str, keys: list[str]) -> dict[str, JobState]:
        """Those of one cluster that it knows. Raises SlurmAway."""
        ids = [key.partition(";")[0] for key in keys]
        found: dict[str, JobState] = {}
        for start in range(0, len(ids), AT_ONCE):
            some = ",".join(ids[start : start + AT_ONCE])
            found.update(self._slurm.jobs("-j", some, at=self._clock(), cluster=cluster))
        return {_key(job_id, cluster): state for job_id, state in found.items()}

    def _followed(self, own: Path) -> list[str]:
        """The jobs that agents follow; of those that they left without a word, the files are removed."""
        # By the file system's own clock, which other login nodes share. It may have been put back, too.
        own.touch(0o600)
        now = own.stat().st_mtime
        forgotten_after_s = max(FORGOTTEN_AFTER * self._interval_s, FORGOTTEN_AFTER_S)
        followed = []
        for path in self._jobs.iterdir():
            if not _is_key(path.name):
                continue
            at = _touched_at(path)
            if at is not None and abs(now - at) <= forgotten_after_s:
                followed.append(path.name)
            else:
                self.forget(path.name)
        return sorted(followed, key=_cluster_first)


def folder_name(host: str, env: Mapping[str, str]) -> str:
    """That of the folder for the SLURM that is asked from here: `slurm-` and 12 hexadecimal digits.

    Two projects may call backends alike that share storage and not the cluster, and a backend may be led to
    another one. `host` is what this login node is called in the configuration, `env` the backend's.
    """
    deciding = {name: os.environ[name] for name in _WHICH if name in os.environ}
    deciding.update({name: env[name] for name in (*_WHICH, "SLURM_CLUSTERS", "PATH") if name in env})
    told = json.dumps([host, socket.gethostname(), sorted(deciding.items())])
    return f"slurm-{hashlib.sha256(told.encode()).hexdigest()[:12]}"


def _cluster_of(key: str) -> str:
    return key.partition(";")[2]


def _cluster_first(key: str) -> tuple[str, int]:
    return _cluster_of(key), int(key.partition(";")[0])


def _key(job_id: str, cluster: str) -> str:
    return f"{job_id};{cluster}" if cluster else job_id


def _is_key(name: str) -> bool:
    """Whether it is a job that an agent follows, and not what else lies in a folder on shared storage."""
    return re.fullmatch(r"[0-9]+(;[^;]+)?", name) is not None


def _identity(path: Path) -> tuple[int, int] | None:
    """Which file it is, whatever its name; None for none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_ctime_ns


def _touched_at(path: Path) -> float | None:
    """When it was touched, in the file system's time; None where it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return None
