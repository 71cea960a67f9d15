"""The backend `slurm`: a login node that the server logs in to, whose agent submits the run as a job."""

from __future__ import annotations

from collections.abc import Set

from potato_ray.backends import slurm_check, ssh_check
from potato_ray.backends.base import CheckReport, Placement, Refusal
from potato_ray.backends.host_agent import FACTS_S
from potato_ray.backends.host_backend import HostBackend
from potato_ray.backends.host_dialogue import one_answer
from potato_ray.backends.host_report import HostReport
from potato_ray.backends.slurm_settings import SlurmSettings
from potato_ray.backends.way_back import look_for_way_back
from potato_ray.errors import PotatoRayError
from potato_ray.ssh import Connection


class SlurmBackend(HostBackend[SlurmSettings]):
    """Runs as SLURM jobs. Which GPU a job gets is for SLURM to say, so none is reserved here."""

    type = "slurm"

    def check(self) -> CheckReport:
        """Log in to the login node and look at everything there that a job needs; submits nothing."""
        settings = self.settings
        try:
            report = self._line.ask(self._look)
            way_back = self._line.ask(look_for_way_back)
        except PotatoRayError as failure:
            return ssh_check.unreached(self.name, self.type, settings.description, failure)
        finally:
            self._line.close()
        return slurm_check.reached(self.name, settings, report, way_back, self._placed(uses_gpu=True))

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        """Wherever SLURM finds room; nobody is asked for that before the job is submitted."""
        return self._placed(uses_gpu=uses_gpu)

    def _placed(self, *, uses_gpu: bool) -> Placement:
        """Without GPUs among what it asks for, a job sees none: SLURM itself may hide nothing."""
        settings = self.settings
        with_card = uses_gpu and settings.asks_for_cards
        return Placement(
            self.name,
            "cuda" if with_card else "cpu",
            step=f"{self.name}: slurm to {settings.host}, {_asked(settings) if with_card else 'CPU'}",
            host=settings.host,
        )

    def _look(self, line: Connection) -> HostReport:
        settings = self.settings
        request = {
            "do": "probe",
            "remote_dir": settings.remote_dir,
            "env": dict(settings.env),
            "commands": [*slurm_check.COMMANDS, settings.job_python],
            "modules": list(ssh_check.modules_of_trainers()),
            "modules_of": settings.job_python,
            "trial": slurm_check.trial(settings),
        }
        return HostReport.from_json(one_answer(line, settings.python, request, "facts", FACTS_S))


def _asked(settings: SlurmSettings) -> str:
    """What gives a job its GPU, in a few words."""
    gres = settings.keys.get("gres")
    return f"gres {gres}" if gres else "GPUs by sbatch_args"
