"""From a backend's name in the configuration to the backend."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from potato_ray.backends.agent import AgentBackend, AgentSettings
from potato_ray.backends.base import Backend
from potato_ray.backends.grants import Means
from potato_ray.backends.local import LocalBackend, LocalSettings
from potato_ray.backends.unbuilt import NEXT_STEP, UnbuiltBackend
from potato_ray.errors import NotFound, StartRefused
from potato_ray.registry.reading import RegistryReader

if TYPE_CHECKING:
    from potato_ray.config.backends import AgentBackend as ConfiguredAgent
    from potato_ray.config.models import ProjectConfig

LOCAL = "local"
LOST_AFTER_S = 300.0
"""How long an agent works on without its server, unless heartbeat_timeout_s is longer."""


def make_backend(
    name: str, config: ProjectConfig, *, spare: Path | None = None, means: Means | None = None
) -> Backend:
    """The backend called `name`. Raises NotFound.

    For who executes runs: `spare` is the address of a spare worker, `means` are for agents that are
    started from here.
    """
    if name == LOCAL:
        return LocalBackend(LOCAL, replace(local_settings(config), spare=spare))
    if name not in config.model_training.backends:
        raise _unknown(name, config)
    settings = config.model_training.backends[name]
    if settings.type == "agent":
        return AgentBackend(name, agent_settings(name, settings, config))
    if settings.type == "ssh":
        # Imported where there is one: what it needs is loaded by nobody else.
        from potato_ray.backends.ssh import SshBackend
        from potato_ray.backends.ssh_settings import SshSettings

        described = SshSettings.from_config(settings, describe(name, config), config.path.parent)
        return SshBackend(name, described, means)
    if settings.type == "slurm":
        from potato_ray.backends.slurm import SlurmBackend
        from potato_ray.backends.slurm_settings import SlurmSettings

        submitted = SlurmSettings.from_config(settings, describe(name, config), config.path.parent)
        return SlurmBackend(name, submitted, means)
    return UnbuiltBackend(name, config.model_training.backends[name].type, describe(name, config))


def require_runnable(name: str, config: ProjectConfig) -> None:
    """Refuse a start on a backend that cannot run anything. Raises NotFound or StartRefused."""
    backend = make_backend(name, config)
    if isinstance(backend, UnbuiltBackend):
        raise StartRefused(backend.sentence, code="unknown_backend", next_step=NEXT_STEP)


def describe(name: str, config: ProjectConfig) -> str:
    """One line for a menu, such as "gpu-server (ssh to gpu.example.org)". Raises NotFound."""
    if name == LOCAL:
        return f"{LOCAL} (this machine)"
    if name not in config.model_training.backends:
        raise _unknown(name, config)
    settings = config.model_training.backends[name]
    host = getattr(settings, "host", None) or getattr(settings, "node", None)
    return f"{name} ({settings.type}{f' to {host}' if host else ''})"


def agent_settings(name: str, settings: ConfiguredAgent, config: ProjectConfig) -> AgentSettings:
    """What the configuration says about an agent backend."""
    return AgentSettings(
        description=describe(name, config),
        reader=RegistryReader(config.registry_path, project=config.annotation_task_name),
        device=config.model_training.device,
        heartbeat_timeout_s=settings.heartbeat_timeout_s,
    )


def lost_after_s(config: ProjectConfig, name: str) -> float:
    """How long a worker on a backend goes on when nobody follows it any more, in seconds."""
    if name == LOCAL:
        return config.model_training.survive_s
    settings = config.model_training.backends[name]
    return max(LOST_AFTER_S, float(getattr(settings, "heartbeat_timeout_s", 0.0)))


def num_threads(config: ProjectConfig, name: str) -> int | None:
    """The threads of a worker on a backend: its own key, or model_training's where it has none."""
    settings = config.model_training.backends.get(name)
    if settings is None or settings.type == "agent":
        return config.model_training.num_threads
    return settings.num_threads


def environment(config: ProjectConfig, name: str) -> dict[str, str]:
    """What is added to the environment of a worker on a backend.

    Under SLURM the job's script does that, before the prelude: what a module has set stays as it is.
    """
    settings = config.model_training.backends.get(name)
    if settings is None or settings.type == "slurm":
        return {}
    return dict(getattr(settings, "env", None) or {})


def local_settings(config: ProjectConfig) -> LocalSettings:
    """What the configuration says about local runs."""
    training = config.model_training
    return LocalSettings(
        device=training.device,
        num_threads=training.num_threads,
        max_ram_mb=training.max_ram_mb,
        folder=config.training_dir,
    )


def _unknown(name: str, config: ProjectConfig) -> NotFound:
    known = ", ".join([LOCAL, *config.model_training.backends])
    return NotFound(
        f"There is no backend '{name}'.",
        evidence=f"The backends are {known}.",
        next_step="Name one of them, or define it under model_training.backends.",
    )
