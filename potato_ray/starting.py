"""What a start asks for, and everything that is refused at once.

The same checks run again when a waiting run's turn comes, since the configuration may have changed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from potato_ray.backends.local_check import uses_gpu
from potato_ray.backends.making import require_runnable
from potato_ray.config.models import ProjectConfig
from potato_ray.config.spelling import listed
from potato_ray.config.trainer_checks import LOCAL_ONLY
from potato_ray.config.training_checks import LOCAL
from potato_ray.errors import StartRefused
from potato_ray.project.schemes import Scheme, schemes_of
from potato_ray.registry.runs import Run, to_json
from potato_ray.trainers import params as trainer_params
from potato_ray.trainers import registry as trainer_registry
from potato_ray.trainers.base import Trainer, TrainerError
from potato_ray.trainers.installing import into_this_python, lacking
from potato_ray.trainers.param_values import nearest

HTTP_STATUS = {
    "unknown_trainer": 400,
    "unknown_schema": 400,
    "untrainable_schema": 400,
    "bad_params": 400,
    "missing_dependency": 409,
    "licence_not_confirmed": 400,
    "unknown_backend": 409,
    "local_only": 409,
    "busy": 409,
    "idempotency_key_reused": 409,
    "queue_full": 429,
}


@dataclass(frozen=True)
class StartRequest:
    """A start as somebody asked for it; `schemas` is not empty, `backend` "" means the default."""

    trainer: str
    schemas: tuple[str, ...]
    params: Mapping[str, Any] = field(default_factory=dict)
    backend: str = ""
    accept_licence: bool = False
    queue: bool = True
    trigger: str = "cli"
    idempotency_key: str | None = None


def request_of(run: Run) -> StartRequest:
    """The start request that a waiting run's row stands for."""
    return StartRequest(
        trainer=run.trainer,
        schemas=tuple(run.schemas),
        params=run.params,
        backend=run.backend,
        accept_licence=run.accept_licence,
    )


def require_same(run: Run, request: StartRequest) -> None:
    """Check that a run is the one asked for; raises StartRefused when its key stands for another start."""
    # A start that names no backend stays the same when the project's own becomes another one.
    asked = (request.trainer, tuple(request.schemas), request.backend or run.backend)
    if asked == (run.trainer, tuple(run.schemas), run.backend) and _stored(request.params) == run.params:
        return
    raise StartRefused(
        "This Idempotency-Key was used for another start.",
        code="idempotency_key_reused",
        evidence="Trainer, schemas, params or backend differ from those of the first time.",
        next_step="Send a key of its own with each start, and the same one only to repeat it.",
    )


def _stored(params: Mapping[str, Any]) -> Any:
    """Parameters as a run's row gives them back."""
    return json.loads(to_json(params))


@dataclass(frozen=True)
class StartPlan:
    """A start that may be made: the trainer, its complete parameters, the schemes, the backend."""

    trainer: type[Trainer]
    schemes: tuple[Scheme, ...]
    params: Mapping[str, Any]
    backend: str

    @property
    def uses_gpu(self) -> bool:
        return uses_gpu(self.trainer, self.params)


def plan_start(config: ProjectConfig, request: StartRequest) -> StartPlan:
    """Check a start against the configuration. Raises StartRefused with one of HTTP_STATUS's codes."""
    trainer = _trainer(request.trainer)
    schemes = _schemes(config, request.schemas)
    _check_learnable(trainer, schemes[0])
    params = _params(config, trainer, request.params)
    _check_licence(trainer, request.accept_licence)
    backend = _backend(config, trainer, request.backend)
    return StartPlan(trainer=trainer, schemes=schemes, params=params, backend=backend)


def plan_new_start(config: ProjectConfig, request: StartRequest) -> StartPlan:
    """The same for a start that is made now: what runs on local needs its packages in this Python.

    What groups the items does on every backend, for the bundle is built here.
    A run that has waited finds them missing itself, and says so in its error.
    """
    plan = plan_start(config, request)
    _check_grouping(plan)
    if plan.backend == LOCAL:
        _check_packages(plan)
    return plan


def _check_grouping(plan: StartPlan) -> None:
    try:
        grouping = plan.trainer.grouping(plan.params)
    except Exception:  # noqa: BLE001 - a foreign trainer's own failure: the run's bundle asks again, and says it
        return
    missing = trainer_registry.not_installed(grouping.requires) if grouping else []
    if grouping and missing:
        raise StartRefused(
            f"Items cannot be split by {grouping.by} here, where the bundle is built: "
            f"{lacking(need.package for need in missing)}",
            code="missing_dependency",
            next_step=into_this_python(grouping.install_hint),
        )


def _check_packages(plan: StartPlan) -> None:
    try:
        trainer_registry.require_packages(plan.trainer, params=plan.params)
    except TrainerError as missing:
        raise StartRefused(missing.message, code=missing.code, next_step=missing.next_step) from None


def _trainer(name: str) -> type[Trainer]:
    known = trainer_registry.trainer_names()
    trainer = trainer_registry.get_trainer(name) if name in known else None
    if trainer is None:
        raise StartRefused(
            f"There is no trainer '{name}'." if name else "No trainer was named.",
            code="unknown_trainer",
            evidence=f"The trainers are {', '.join(known)}.",
            next_step=_suggestion(name, known) or "Name one of them.",
        )
    return trainer


def _schemes(config: ProjectConfig, names: Sequence[str]) -> tuple[Scheme, ...]:
    known = {scheme.name: scheme for scheme in schemes_of(config.annotation_schemes)}
    missing = [name for name in names if name not in known]
    if missing or not names:
        listed = ", ".join(known) or "none"
        raise StartRefused(
            f"There is no annotation scheme '{missing[0]}'."
            if missing
            else "No annotation scheme was named.",
            code="unknown_schema",
            evidence=f"The project's schemes are {listed}.",
            next_step=_suggestion(missing[0] if missing else "", list(known)) or "Name one of them.",
        )
    return tuple(known[name] for name in names)


def _check_learnable(trainer: type[Trainer], scheme: Scheme) -> None:
    if trainer_registry.learns(trainer, scheme.kind, scheme.annotation_type):
        return
    others = (
        [t.name for t in trainer_registry.trainers_for(scheme.kind, scheme.annotation_type)]
        if scheme.kind is not None
        else []
    )
    raise StartRefused(
        f"{trainer.name} cannot learn scheme '{scheme.name}' ({scheme.annotation_type}).",
        code="untrainable_schema",
        evidence=scheme.why_not or _what_it_learns(trainer, scheme),
        next_step=f"Use {' or '.join(others)}." if others else _nobody_learns(scheme),
    )


def _what_it_learns(trainer: type[Trainer], scheme: Scheme) -> str:
    if scheme.kind in trainer.kinds and trainer.annotation_types:
        return f"It learns schemes of type {listed(trainer.annotation_types, 'and')}."
    return f"It learns schemes of kind {', '.join(trainer.kinds)}; this one is {scheme.kind}."


def why_nobody_learns(scheme: Scheme) -> str:
    """Why no trainer here learns the scheme."""
    return scheme.why_not or _nobody_learns(scheme)


def _nobody_learns(scheme: Scheme) -> str:
    return f"No trainer here learns from annotations of type {scheme.annotation_type}."


def _params(config: ProjectConfig, trainer: type[Trainer], given: Mapping[str, Any]) -> dict[str, Any]:
    configured = config.model_training.trainer_params.get(trainer.name, {})
    for layer in (configured, given):
        problems = trainer_params.check_params(trainer, layer)
        if problems:
            raise _bad_params("; ".join(problem.message for problem in problems))
    params = trainer_params.complete(trainer, configured, given)
    together = trainer_params.problem_together(trainer, params)
    if together:
        raise _bad_params(together)
    return params


def _bad_params(message: str) -> StartRefused:
    return StartRefused(message, code="bad_params", next_step="Correct the parameters and start again.")


def _check_licence(trainer: type[Trainer], accepted: bool) -> None:
    licence = trainer.licence
    if not licence.needs_confirmation or accepted:
        return
    raise StartRefused(
        f"{trainer.name} runs software under {licence.spdx}, which has to be accepted first.",
        code="licence_not_confirmed",
        evidence=f"The licence: {licence.url}." if licence.url else "",
        next_step="Read the licence and start again with accept_licence (--accept-licence).",
    )


def _backend(config: ProjectConfig, trainer: type[Trainer], name: str) -> str:
    chosen = name or config.model_training.backend
    known = [LOCAL, *config.model_training.backends]
    if chosen not in known:
        raise StartRefused(
            f"There is no backend '{chosen}'.",
            code="unknown_backend",
            evidence=f"The backends are {', '.join(known)}.",
            next_step=_suggestion(chosen, known) or "Define it under model_training.backends.",
        )
    if trainer.name in LOCAL_ONLY and chosen != LOCAL:
        raise StartRefused(
            f"{trainer.name} runs only on local.",
            code="local_only",
            next_step="Start it with backend local.",
        )
    require_runnable(chosen, config)
    return chosen


def _suggestion(name: str, known: Sequence[str]) -> str:
    near = nearest(name, known)
    return f"Did you mean {near}?" if near else ""
