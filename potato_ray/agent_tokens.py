"""Tokens of agent backends: made here, shown once, and kept as their sha256 alone."""

from __future__ import annotations

import secrets
from hashlib import sha256

from potato_ray.config.models import ProjectConfig
from potato_ray.errors import Conflict, NotFound

PREFIX = "prt_"
"""So that scanners of published code know one when they see it."""
TOKEN_BYTES = 32


def new_token() -> str:
    """A token that nobody can guess."""
    return PREFIX + secrets.token_urlsafe(TOKEN_BYTES)


def digest_of(secret: str) -> str:
    """What is kept of a token or a lease: its sha256 in hex."""
    return sha256(secret.encode("utf-8", "replace")).hexdigest()


def is_agent_backend(config: ProjectConfig, name: str) -> bool:
    """Whether the runs of a backend wait for an agent."""
    settings = config.model_training.backends.get(name)
    return settings is not None and settings.type == "agent"


def require_agent_backend(config: ProjectConfig, name: str) -> None:
    """Raises NotFound for an unknown backend, Conflict (not_an_agent_backend) for one of another type."""
    if is_agent_backend(config, name):
        return
    ours = [each for each in config.model_training.backends if is_agent_backend(config, each)]
    known = f"The agent backends are {', '.join(ours)}." if ours else "There is no agent backend."
    if name != "local" and name not in config.model_training.backends:
        raise NotFound(
            f"There is no backend '{name}'.",
            evidence=known,
            next_step="Define it under model_training.backends with type: agent.",
        )
    raise Conflict(
        f"Backend '{name}' is no agent backend, so it has no token.",
        code="not_an_agent_backend",
        evidence=known,
        next_step="Name an agent backend, or define one with type: agent.",
    )
