"""Backends that are configured and validated, but that this version cannot run anything on."""

from __future__ import annotations

from collections.abc import Set
from pathlib import Path

from potato_ray.backends.base import Check, CheckReport, EventSink, Job, Outcome, Placement, Refusal
from potato_ray.errors import RunFailed

NEXT_STEP = "Use backend local, or a version of potato-ray that supports this type."


class UnbuiltBackend:
    """Answers everything with the same clear sentence."""

    def __init__(self, name: str, type: str, description: str) -> None:  # noqa: A002 - the key's name
        self.name = name
        self.type = type
        self.description = description

    @property
    def sentence(self) -> str:
        return (
            f"{self.description} cannot run anything yet: this version runs on local, ssh, slurm and agents."
        )

    def check(self) -> CheckReport:
        check = Check("support", ok=False, message=self.sentence, next_step=NEXT_STEP)
        return CheckReport(self.name, self.type, self.description, checks=(check,))

    def place(self, taken: Set[str], *, uses_gpu: bool = True) -> Placement | Refusal:
        return Refusal("backend_failed", self.sentence, NEXT_STEP)

    def execute(self, job: Job, sink: EventSink) -> Outcome:
        """Raises RunFailed."""
        raise RunFailed(self.sentence, code="backend_failed", next_step=NEXT_STEP)

    def alive(self, folder: Path) -> bool:
        return False
