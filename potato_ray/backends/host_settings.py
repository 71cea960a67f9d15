"""What the configuration says of any host that the server logs in to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from potato_ray.ssh import Destination

if TYPE_CHECKING:
    from potato_ray.config.backends import SlurmBackend, SshBackend


@dataclass(frozen=True)
class HostSettings:
    """The keys that all such backends have (docs/configuration.md); files in MiB, times in seconds."""

    destination: Destination
    description: str = ""
    python: str = "python3"
    remote_dir: str = "~/.cache/potato-training"
    packages: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    fetch_artifacts: bool = True
    keep_remote: bool = False
    max_artifact_mb: float = 2048.0
    heartbeat_timeout_s: float = 120.0

    @property
    def host(self) -> str:
        """The host as the configuration names it."""
        return self.destination.host

    @property
    def least_card_mb(self) -> float | None:
        """MiB that a run's card must still have free just before its worker starts; None: not looked at."""
        return None

    @property
    def slurm(self) -> Mapping[str, Any] | None:
        """How the agent there submits its job to SLURM; None where it starts the worker itself."""
        return None


def host_keys(configured: SshBackend | SlurmBackend, description: str, folder: Path) -> dict[str, Any]:
    """The fields of HostSettings, as they are configured.

    `folder` holds config.yaml: a relative identity_file lies there, wherever a command is given. Raises
    ConfigInvalid for a host or a user that ssh could take for an option.
    """
    key = configured.identity_file
    return {
        "destination": Destination(
            configured.host,
            user=configured.user,
            port=configured.port,
            identity_file=None if key is None else str(folder / Path(key).expanduser()),
            connect_timeout_s=configured.connect_timeout_s,
        ),
        "description": description,
        "python": configured.python,
        "remote_dir": configured.remote_dir,
        "env": dict(configured.env),
        "fetch_artifacts": configured.fetch_artifacts,
        "keep_remote": configured.keep_remote,
        "max_artifact_mb": configured.max_artifact_mb,
        "heartbeat_timeout_s": configured.heartbeat_timeout_s,
    }
