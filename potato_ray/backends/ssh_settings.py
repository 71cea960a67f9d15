"""What the configuration says of a backend of type ssh."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.backends.host_settings import HostSettings, host_keys

if TYPE_CHECKING:
    from potato_ray.config.backends import SshBackend as Configured


@dataclass(frozen=True)
class SshSettings(HostSettings):
    """The keys of an ssh backend (docs/configuration.md); memory in MiB."""

    gpus: str = "auto"
    min_free_gpu_mb: float = 2000.0

    @property
    def least_card_mb(self) -> float | None:
        """A card that was pinned is taken however full it is."""
        return self.min_free_gpu_mb if self.gpus == "auto" else None

    @classmethod
    def from_config(cls, configured: Configured, description: str, folder: Path) -> SshSettings:
        """`folder` holds config.yaml. Raises as `host_keys` does."""
        return cls(
            **host_keys(configured, description, folder),
            packages=tuple(configured.packages),
            gpus=configured.gpus,
            min_free_gpu_mb=configured.min_free_gpu_mb,
        )
