"""What the configuration says of a backend of type ssh."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.ssh import Destination

if TYPE_CHECKING:
    from potato_ray.config.backends import SshBackend as Configured


@dataclass(frozen=True)
class SshSettings:
    """The keys of an ssh backend (docs/configuration.md); memory and files in MiB, times in seconds."""

    destination: Destination
    description: str = ""
    python: str = "python3"
    remote_dir: str = "~/.cache/potato-training"
    gpus: str = "auto"
    min_free_gpu_mb: float = 2000.0
    packages: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)
    fetch_artifacts: bool = True
    keep_remote: bool = False
    max_artifact_mb: float = 2048.0
    heartbeat_timeout_s: float = 120.0

    @property
    def host(self) -> str:
        """The host as the configuration names it."""
        return self.destination.host

    @classmethod
    def from_config(cls, settings: Configured, description: str, folder: Path) -> SshSettings:
        """`folder` holds config.yaml: a relative identity_file lies there, wherever a command is given.

        Raises ConfigInvalid for a host or a user that ssh could take for an option.
        """
        key = settings.identity_file
        return cls(
            destination=Destination(
                settings.host,
                user=settings.user,
                port=settings.port,
                identity_file=None if key is None else str(folder / Path(key).expanduser()),
                connect_timeout_s=settings.connect_timeout_s,
            ),
            description=description,
            python=settings.python,
            remote_dir=settings.remote_dir,
            gpus=settings.gpus,
            min_free_gpu_mb=settings.min_free_gpu_mb,
            packages=tuple(settings.packages),
            env=dict(settings.env),
            fetch_artifacts=settings.fetch_artifacts,
            keep_remote=settings.keep_remote,
            max_artifact_mb=settings.max_artifact_mb,
            heartbeat_timeout_s=settings.heartbeat_timeout_s,
        )
