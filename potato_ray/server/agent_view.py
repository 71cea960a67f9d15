"""What agents may come for, of one moment: the runs on offer, and those that an agent has in hand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from potato_ray.mirror.folder import MirrorFolder
from potato_ray.registry.runs import Run
from potato_ray.registry.states import ACTIVE, State


@dataclass(frozen=True)
class Claimed:
    """One attempt of a run that a lease has."""

    run_id: str
    attempt: int
    backend: str


@dataclass(frozen=True)
class View:
    """`offered` are run ids by backend, oldest first; `held` the claimed attempts by the lease's sha256.

    `busy` is the number of runs in progress on any backend: when one ends, another may begin.
    """

    offered: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    held: Mapping[str, Claimed] = field(default_factory=dict)
    busy: int = 0


class Unfinished(Protocol):
    """What reads the runs: a RegistryReader."""

    def unfinished(self) -> list[Run]: ...


class Views:
    """Takes views, in any one thread. `folder` gives the folder of a run, None for what can be no name."""

    def __init__(self, reader: Unfinished, folder: Callable[[str], Path | None]) -> None:
        self._reader = reader
        self._folder = folder
        self._leases: dict[Claimed, str] = {}

    def take(self) -> View:
        """What there is now. Raises PotatoRayError, sqlite3.Error."""
        runs = self._reader.unfinished()
        active = [run for run in runs if run.state in ACTIVE]
        offered: dict[str, tuple[str, ...]] = {}
        for run in runs:
            if run.state is State.OFFERED:
                offered[run.backend] = (*offered.get(run.backend, ()), run.run_id)
        return View(offered, self._held(active), len(active))

    def job_folder(self, claimed: Claimed) -> MirrorFolder | None:
        """The folder of a claimed run."""
        path = self._folder(claimed.run_id)
        return None if path is None else MirrorFolder(path)

    def _held(self, active: list[Run]) -> dict[str, Claimed]:
        attempts = [Claimed(run.run_id, run.attempt, run.backend) for run in active]
        known = {each: self._leases.get(each) or self._lease_of(each) for each in attempts}
        self._leases = {each: lease for each, lease in known.items() if lease}
        return {lease: each for each, lease in self._leases.items()}

    def _lease_of(self, claimed: Claimed) -> str:
        """The sha256 of its lease; "" while nobody has claimed it. It does not change any more then."""
        folder = self.job_folder(claimed)
        try:
            claim = None if folder is None else folder.read_claim()
        except OSError:
            return ""
        return str(claim.lease_sha256) if claim is not None and claim.attempt == claimed.attempt else ""
