"""The backend `local`: a launcher and a worker on this machine."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Set
from dataclasses import dataclass
from pathlib import Path

from potato_ray.backends import local_check
from potato_ray.backends.base import CheckReport, EventSink, Job, Outcome, Placement, Refusal
from potato_ray.backends.choice import DEFAULT_MIN_FREE_MB
from potato_ray.backends.device import Machine, cpu, machine_has_mps, place_local, visible_here
from potato_ray.backends.gpus import list_cards
from potato_ray.backends.smi import RunSmi, run_nvidia_smi
from potato_ray.backends.supervision import Supervision
from potato_ray.backends.torch_build import TorchBuild, ask_torch
from potato_ray.job.folder import JobFolder
from potato_ray.job.follow import ALIVE, Follower
from potato_ray.job.launcher import start_detached
from potato_ray.job.processes import marked


@dataclass(frozen=True)
class LocalSettings:
    """What model_training says about local runs; memory in MiB.

    `folder` is where runs are kept, for the check of the disk. `python` runs the workers, `spare` is
    the address of a spare worker (job.spare), which a job takes where it fits.
    """

    device: str = "auto"
    num_threads: int | None = None
    max_ram_mb: int | None = None
    min_free_gpu_mb: float = DEFAULT_MIN_FREE_MB
    folder: Path = Path()
    python: str = sys.executable
    spare: Path | None = None


class LocalBackend:
    """Runs on the server's own machine."""

    def __init__(
        self,
        name: str = "local",
        settings: LocalSettings | None = None,
        *,
        run_smi: RunSmi = run_nvidia_smi,
        ask_torch: Callable[[str], TorchBuild | None] = ask_torch,
        start: Callable[[Path], object] | None = None,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self.name = name
        self.type = "local"
        self.settings = settings or LocalSettings()
        self._run_smi = run_smi
        self._start = start or self._start_launcher
        self._clock = clock
        self._sleep = sleep
        self._torch = _TorchOnce(ask_torch, self.settings.python)

    def check(self) -> CheckReport:
        """Look at Python, the device, the disk and the trainers; a fresh look at torch too."""
        self._torch.forget()
        machine = self._machine()
        return local_check.report(self.name, self.settings, machine, self._place(machine, frozenset()))

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        """Choose the device; a trainer without use for a GPU gets the CPU, whatever is configured."""
        if not uses_gpu or self.settings.device == "cpu":
            return cpu(self.name)
        return self._place(self._machine(), taken)

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        """Start the job's launcher, or follow the one that runs, to the end."""
        return Supervision(job, sink, start=self._start, clock=self._clock, sleep=self._sleep).run()

    def alive(self, folder: Path) -> bool:
        """Whether the launcher or anything that it started is alive; False where none was started."""
        job = JobFolder(folder)
        processes = job.read_processes()
        if processes is None:
            return False
        if Follower(job).state() == ALIVE:
            return True
        return bool(marked(processes.markers, not_before=processes.launcher.start_ticks))

    def _place(self, machine: Machine, taken: Set[str]) -> Placement | Refusal:
        settings = self.settings
        return place_local(
            self.name, settings.device, machine, taken=taken, min_free_mb=settings.min_free_gpu_mb
        )

    def _machine(self) -> Machine:
        listing = visible_here(list_cards(self._run_smi))
        torch = self._torch.build() if listing.cards else None
        return Machine(listing, machine_has_mps(), torch)

    def _start_launcher(self, folder: Path) -> object:
        return start_detached(folder, python=self.settings.python, spare=self.settings.spare)


class _TorchOnce:
    """Asks for the torch once, since importing it takes seconds; `forget` asks again."""

    def __init__(self, ask: Callable[[str], TorchBuild | None], python: str) -> None:
        self._ask = ask
        self._python = python
        self._lock = threading.Lock()
        self._answer: tuple[TorchBuild | None] | None = None

    def build(self) -> TorchBuild | None:
        with self._lock:
            if self._answer is None:
                self._answer = (self._ask(self._python),)
            return self._answer[0]

    def forget(self) -> None:
        with self._lock:
            self._answer = None
