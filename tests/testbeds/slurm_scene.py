"""An agent's login node with one job in hand, a SLURM that is none, and a clock that tests move."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from clocks import Clock
from fake_slurm import DOWN, FakeSlurm

from potato_ray.agent.held_job import HeldJob
from potato_ray.agent.job_document import JobDocument
from potato_ray.agent.settings import Settings
from potato_ray.agent.slurm.keys import SlurmKeys
from potato_ray.agent.slurm.place import SlurmPlace
from potato_ray.agent.slurm.watch import JobWatch
from potato_ray.job.folder import Processes
from potato_ray.job.processes import identify

ID = "4242"
CODE = Path("/shared/code")
AWAY = f"slurm_load_jobs error: {DOWN}\n"
PARCEL = {"sha256": "0" * 64, "bytes": 1}
JOB = {"run_id": "run-7", "attempt": 1, "spec": {}, "bundle": PARCEL, "code": PARCEL}


class SlurmScene:
    """It is what tells people, too: `steps` and `lines` of the log."""

    def __init__(self, tmp_path: Path) -> None:
        self.fake = FakeSlurm(tmp_path / "fake")
        self.clock = Clock()
        self.steps: list[str] = []
        self.lines: list[str] = []
        self.is_unwanted = False
        (tmp_path / "jobs").mkdir()
        self.held = HeldJob.create(tmp_path / "jobs", JobDocument.from_json(JOB), "lease", "server", "far")
        self.folder = self.held.folder
        self._workdir = tmp_path
        self._watches: list[JobWatch] = []

    def step(self, words: str) -> None:
        self.steps.append(words)

    def log(self, words: str, level: str = "info") -> None:
        self.lines.append(words if level == "info" else f"{level}: {words}")

    def place(self, prelude: tuple[str, ...] = (), every_s: float = 0.0) -> SlurmPlace:
        """That of an agent which has just been started; its watch turns when `turn` is called."""
        # Without an interval, each look asks.
        keys = SlurmKeys(mem="1G", prelude=prelude, poll_interval_s=every_s, env=self.fake.env)
        settings = Settings("server", "far", self._workdir, sys.executable, host="login1", slurm=keys)
        return SlurmPlace(
            self.held,
            settings,
            keys,
            self,
            lambda: self.is_unwanted,
            clock=self.clock,
            sleep=self.clock.sleep,
            follow=self._watches.append,
        )

    def submitted(
        self, state: str = "", reason: str = "None", nodes: str = "", prelude: tuple[str, ...] = ()
    ) -> SlurmPlace:
        """One with a job at SLURM, which was looked at once."""
        place = self.place(prelude)
        place.start(CODE)
        self.turn(place, state, reason, nodes)
        return place

    def turn(self, place: SlurmPlace, state: str = "", reason: str = "None", nodes: str = "") -> str:
        """How the place says the job stands, after a look at it in that state."""
        if state:
            self.fake.job(ID, state, reason, nodes)
        place.state()
        self._watches[-1].turn()
        return place.state()

    def begins(self) -> None:
        """The launcher says which processes it has started."""
        process = identify(os.getpid())
        assert process is not None
        self.folder.write_processes(Processes(process, process, self.clock.now))

    def order_of(self, *names: str) -> list[str]:
        """Which of these commands were run last, the latest at the end."""
        times = {name: (self.fake.folder / f"{name}.calls.jsonl").stat().st_mtime_ns for name in names}
        return sorted(names, key=times.__getitem__)

    @property
    def orders(self) -> list[list[str]]:
        """What scancel was told."""
        return self.fake.arguments("scancel")
