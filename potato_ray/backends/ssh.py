"""The backend `ssh`: a machine that the server logs in to, and starts an agent on for each run."""

from __future__ import annotations

import shlex
from collections.abc import Sequence, Set
from typing import Final

from potato_ray.backends import ssh_check
from potato_ray.backends.base import CheckReport, Placement, Refusal
from potato_ray.backends.host_agent import FACTS_S
from potato_ray.backends.host_backend import HostBackend
from potato_ray.backends.host_dialogue import one_answer
from potato_ray.backends.host_report import SMI, HostReport
from potato_ray.backends.ssh_check import Looked
from potato_ray.backends.ssh_placing import HostGpus, on_cpu, place_on_host
from potato_ray.backends.ssh_settings import SshSettings
from potato_ray.backends.torch_build import TorchBuild
from potato_ray.backends.way_back import look_for_way_back
from potato_ray.errors import PotatoRayError
from potato_ray.job.command import Answer
from potato_ray.ssh import Connection

TORCH_FOR_S: Final = 600.0
"""How long what a host's torch can do is taken as known: to ask it takes seconds."""

PLACE_S: Final = 90.0
"""For one look at what is free there, a torch that is imported for the first time included."""


class SshBackend(HostBackend[SshSettings]):
    """Runs on a host, on the GPU that is the freest there."""

    type = "ssh"
    _torch: tuple[float, TorchBuild | None] | None = None
    """When a host's torch was asked for, and what it said."""

    def check(self) -> CheckReport:
        """Log in and look at everything that a run needs, torch and the trainers' packages included."""
        settings = self.settings
        try:
            modules = ssh_check.modules_of_trainers()
            report, gpus = self._line.ask(
                lambda line: self._look(line, modules=modules, torch=True, within_s=FACTS_S)
            )
            way_back = self._line.ask(look_for_way_back)
        except PotatoRayError as failure:
            return ssh_check.unreached(self.name, self.type, settings.description, failure)
        finally:
            self._line.close()
        looked = Looked(report, gpus, self._placed(gpus, frozenset()), way_back)
        return ssh_check.reached(self.name, self.type, settings.description, looked, settings.packages)

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        """The GPU of a run, by what nvidia-smi there says now."""
        if not uses_gpu or self.settings.gpus == "none":
            return on_cpu(self.name, self.settings.host)
        try:
            gpus = self._line.ask(self._gpus)
        except PotatoRayError as failure:
            return Refusal(failure.code, failure.message, failure.next_step, evidence=failure.evidence)
        return self._placed(gpus, taken)

    def _placed(self, gpus: HostGpus, taken: Set[str]) -> Placement | Refusal:
        settings = self.settings
        return place_on_host(
            self.name,
            settings.host,
            settings.gpus,
            gpus,
            taken=taken,
            min_free_mb=settings.min_free_gpu_mb,
        )

    def _gpus(self, line: Connection) -> HostGpus:
        """The GPUs; the torch there is asked for only where there are any, and now and then."""
        known = self._torch is not None and self._clock() - self._torch[0] < TORCH_FOR_S
        report, gpus = self._look(line)
        if not gpus.listing.cards:
            return gpus
        if not known:
            report, gpus = self._look(line, torch=True)
        return HostGpus(gpus.listing, self._torch[1] if self._torch is not None else report.torch)

    def _look(
        self,
        line: Connection,
        *,
        modules: Sequence[str] = (),
        torch: bool = False,
        within_s: float = PLACE_S,
    ) -> tuple[HostReport, HostGpus]:
        settings = self.settings
        request = {
            "do": "probe",
            "remote_dir": settings.remote_dir,
            "packages": list(settings.packages),
            "env": dict(settings.env),
            "smi": [list(SMI)],
            "torch": torch,
            "modules": list(modules),
        }
        report = HostReport.from_json(one_answer(line, settings.python, request, "facts", within_s))
        if torch:
            self._torch = (self._clock(), report.torch)

        def ask(arguments: Sequence[str], timeout_s: float) -> Answer:
            answer = line.run(shlex.join(["nvidia-smi", *arguments]), timeout_s=timeout_s)
            return Answer(answer.code, answer.text)

        return report, HostGpus(report.listing(ask), report.torch)
