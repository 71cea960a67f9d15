"""What can be started, as the API answers it: trainers, schemes, backends. Imports no training library."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from potato_ray.backends.base import CheckReport
from potato_ray.backends.local_check import uses_gpu
from potato_ray.backends.making import LOCAL, describe, require_runnable
from potato_ray.config.models import AgentBackend, ProjectConfig
from potato_ray.config.trainer_checks import LOCAL_ONLY
from potato_ray.errors import StartRefused
from potato_ray.hiding import hide_paths
from potato_ray.project.schemes import Scheme, schemes_of
from potato_ray.registry.reading import RegistryReader
from potato_ray.server.agents_panel import agent_bodies
from potato_ray.server.param_schema import params_schema
from potato_ray.starting import why_nobody_learns
from potato_ray.trainers import params, registry
from potato_ray.trainers.base import Trainer

LOCAL_DESCRIPTION = "A process of its own on the server's machine."


def trainers_body(config: ProjectConfig) -> dict[str, Any]:
    """Every trainer, and those that cannot be used."""
    return {
        "trainers": [_trainer(config, trainer) for trainer in registry.all_trainers()],
        "broken": [
            {"name": broken.name, "reason": hide_paths(broken.reason, config.task_dir)}
            for broken in registry.broken_trainers()
        ],
    }


def _trainer(config: ProjectConfig, trainer: type[Trainer]) -> dict[str, Any]:
    available, reason, install = registry.availability(trainer)
    configured = dict(config.model_training.trainer_params.get(trainer.name, {}))
    defaults = params.complete(trainer)
    values = {**defaults, **configured}
    listed = [{**each, "configured": values[each["name"]]} for each in params.as_schema(trainer)]
    return {
        "name": trainer.name,
        "description": trainer.description,
        "kinds": trainer.kinds,
        "annotation_types": trainer.annotation_types,
        "modalities": trainer.modalities,
        "params": listed,
        "params_schema": params_schema(trainer),
        "defaults": defaults,
        "configured": configured,
        "licence": asdict(trainer.licence),
        "requires": [asdict(need) for need in trainer.requires],
        "available": available,
        "reason": reason,
        "install_hint": install or trainer.install_hint,
        "uses_gpu": uses_gpu(trainer),
        "local_only": trainer.name in LOCAL_ONLY,
        "selects_on_val": trainer.selects_on_val,
    }


def schemas_body(config: ProjectConfig) -> dict[str, Any]:
    """Every annotation scheme, with the trainers that fit."""
    return {"schemas": [_schema(scheme) for scheme in schemes_of(config.annotation_schemes)]}


def _schema(scheme: Scheme) -> dict[str, Any]:
    fitting = [] if scheme.kind is None else registry.trainers_for(scheme.kind, scheme.annotation_type)
    return {
        "name": scheme.name,
        "annotation_type": scheme.annotation_type,
        "description": str(scheme.options.get("description") or ""),
        "kind": scheme.kind,
        "labels": scheme.labels,
        "trainers": [trainer.name for trainer in fitting],
        "why_not": "" if fitting else why_nobody_learns(scheme),
    }


def backends_body(config: ProjectConfig, reader: RegistryReader, now: float) -> dict[str, Any]:
    """Every backend at `now` (epoch seconds UTC), `local` first."""
    names = (LOCAL, *config.model_training.backends)
    return {"backends": [{**_backend(config, name), **_agents(config, reader, name, now)} for name in names]}


def _agents(config: ProjectConfig, reader: RegistryReader, name: str, now: float) -> dict[str, Any]:
    if not isinstance(config.model_training.backends.get(name), AgentBackend):
        return {"token": None, "agents": []}
    token = "none" if reader.token_of(name) is None else "issued"
    return {"token": token, "agents": agent_bodies(reader, name, now)}


def _backend(config: ProjectConfig, name: str) -> dict[str, Any]:
    settings = config.model_training.backends.get(name)
    description = LOCAL_DESCRIPTION if settings is None else settings.description or ""
    try:
        require_runnable(name, config)
        why_not = ""
    except StartRefused as refusal:
        why_not = " ".join(filter(None, (refusal.message, refusal.next_step)))
    return {
        "name": name,
        "type": LOCAL if settings is None else settings.type,
        "host": getattr(settings, "host", None) or getattr(settings, "node", None),
        "description": description,
        "text": f"{describe(name, config)}{f': {description}' if description and settings else ''}",
        "default": name == config.model_training.backend,
        "runnable": not why_not,
        "why_not": why_not,
    }


def check_body(report: CheckReport) -> dict[str, Any]:
    """A check report."""
    return {**asdict(report), "ok": report.ok}
