"""What the configuration says of a backend of type slurm: a login node, and how jobs are submitted there."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potato_ray.agent.slurm.keys import FLAGS
from potato_ray.backends.host_settings import HostSettings, host_keys
from potato_ray.config.slurm_cards import asks_for_cards

if TYPE_CHECKING:
    from potato_ray.config.backends import SlurmBackend as Configured


@dataclass(frozen=True)
class SlurmSettings(HostSettings):
    """The keys of a slurm backend (docs/configuration.md). `keys` is what its agents submit jobs by.

    `names_job_python`: job_python is configured, and not just the value of python.
    """

    keys: Mapping[str, Any] = field(default_factory=dict, repr=False)
    names_job_python: bool = True

    @property
    def slurm(self) -> Mapping[str, Any]:
        """As agent.slurm.keys.SlurmKeys.from_json takes it."""
        return self.keys

    @property
    def job_python(self) -> str:
        """The interpreter of the workers, on the compute nodes."""
        return str(self.keys.get("job_python") or self.python)

    @property
    def flags(self) -> dict[str, Any]:
        """The keys that are set, of those that become flags of sbatch."""
        return {name: self.keys[name] for name in FLAGS if name in self.keys}

    @property
    def arguments(self) -> list[str]:
        """What a job asks for, as on a command line of sbatch. Raises ValueError for a torn quote."""
        flags = [f"{FLAGS[name]}={value}" for name, value in self.flags.items()]
        return [*flags, *shlex.split(" ".join(map(str, self.keys.get("sbatch_args", ()))))]

    @property
    def asks_for_cards(self) -> bool:
        """Whether SLURM gives a job GPUs: by gres, or by a flag among sbatch_args."""
        further = [str(each) for each in self.keys.get("sbatch_args", ())]
        return asks_for_cards(str(self.keys.get("gres", "")), further)

    @classmethod
    def from_config(cls, configured: Configured, description: str, folder: Path) -> SlurmSettings:
        """`folder` holds config.yaml. Raises as `host_keys` does."""
        return cls(
            **host_keys(configured, description, folder),
            keys=_keys(configured),
            names_job_python=configured.job_python is not None,
        )


def _keys(configured: Configured) -> dict[str, Any]:
    set_ = {name: getattr(configured, name) for name in FLAGS}
    return {
        **{name: value for name, value in set_.items() if value is not None},
        "sbatch_args": list(configured.sbatch_args),
        "prelude": list(configured.prelude),
        "job_python": configured.job_python or configured.python,
        "poll_interval_s": configured.poll_interval_s,
        "env": dict(configured.env),
    }
