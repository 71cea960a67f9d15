"""Checks of trainers and their parameters: trainer_params and auto_retrain."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from potato_ray.config.document import Document, KeyPath
from potato_ray.config.scheme_checks import SCHEMES, scheme_names
from potato_ray.config.spelling import closest, listed, shown
from potato_ray.config.training_checks import LOCAL, TRAINING, check_backend_name, check_scheme_names

if TYPE_CHECKING:
    from potato_ray.trainers.base import Trainer

PLANNED = (
    "decision-calibrate",
    "llm-dpo",
    "llm-sft",
    "reward-model",
    "torchvision-detect",
    "ultralytics-detect",
    "vlm-sft",
)
"""Trainers that other versions have, so that a project which names one is not taken for misspelt."""

LOCAL_ONLY = frozenset({"decision-calibrate"})
DP_KEYS = {"target_epsilon": None, "target_delta": 1.0, "max_grad_norm": None, "noise_multiplier": None}
"""Parameters of differential privacy: each is above 0, and below this."""

_AUTO: KeyPath = (TRAINING, "auto_retrain")


def check_trainers(document: Document) -> None:
    """trainer_params, and auto_retrain when it is enabled."""
    for name, params in document.mapping(TRAINING, "trainer_params").items():
        _check_trainer_params(document, name, params)
    if document.at(*_AUTO, "enabled") is True:
        _check_auto_retrain(document)


def _check_trainer_params(document: Document, name: str, params: Any) -> None:
    from potato_ray.trainers.registry import offered_trainer

    path = (TRAINING, "trainer_params", name)
    trainer = offered_trainer(name)
    if trainer is None and name in PLANNED:
        document.warn(
            path,
            f"trainer {name} is not part of this version; its parameters are not used",
            "planned_trainer",
        )
    elif trainer is None:
        _note_unknown(document, path, name)
    _check_params(document, path, trainer, params)


def _note_unknown(document: Document, path: KeyPath, name: str) -> None:
    from potato_ray.trainers.param_values import nearest
    from potato_ray.trainers.registry import broken_trainers, trainer_names

    for broken in broken_trainers():
        if broken.name == name:
            document.error(path, broken.reason, "unknown_trainer")
            return
    names = trainer_names()
    message = f"there is no trainer {name}; the trainers are {listed(names, 'and')}"
    near = closest(name, [*names, *PLANNED]) or nearest(name, names)
    document.error(path, message, "unknown_trainer", near)


def _check_params(document: Document, path: KeyPath, trainer: type[Trainer] | None, params: Any) -> None:
    from potato_ray.trainers.params import check_params, complete, problem_together

    if not isinstance(params, dict):
        return
    problems = check_params(trainer, params) if trainer else []
    for problem in problems:
        document.error((*path, *problem.path), problem.message.rstrip("."), "bad_params")
    together = problem_together(trainer, complete(trainer, params)) if trainer and not problems else ""
    if together:
        document.error(path, together.rstrip("."), "bad_params")
    if isinstance(params.get("dp"), dict):
        _check_dp(document, (*path, "dp"), params["dp"])


def _check_dp(document: Document, path: KeyPath, dp: Mapping[str, Any]) -> None:
    for key, value in dp.items():
        if key not in DP_KEYS:
            message = f"dp has no such key; it takes {', '.join(DP_KEYS)}"
            document.error((*path, key), message, "unknown_key", closest(key, DP_KEYS))
        elif isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            document.error((*path, key), f"must be a number, not {shown(value)}", "wrong_type")
        else:
            _check_dp_range(document, (*path, key), value, DP_KEYS[key])


def _check_dp_range(document: Document, path: KeyPath, value: float, below: float | None) -> None:
    if value <= 0 or (below is not None and value >= below):
        wanted = "above 0" if below is None else f"above 0 and below {below:g}"
        document.error(path, f"must be {wanted}, not {value:g}", "out_of_range")


def _check_auto_retrain(document: Document) -> None:
    check_backend_name(document, (*_AUTO, "backend"))
    check_scheme_names(document, (*_AUTO, "schemas"))
    if document.at(*_AUTO, "schemas") in (None, []):
        _note_unnamed(document, "schemas", "name the scheme to train on")
    name = document.at(*_AUTO, "trainer")
    if name is None:
        _note_unnamed(document, "trainer", "name the trainer to run")
    elif isinstance(name, str) and name:
        _check_auto_trainer(document, name)


def _note_unnamed(document: Document, key: str, advice: str) -> None:
    written = next((k for k in document.mapping(*_AUTO) if k != key and closest(k, [key])), "")
    if not written:
        document.error((*_AUTO, key), f"auto_retrain is enabled: {advice}", "missing_key")


def _check_auto_trainer(document: Document, name: str) -> None:
    from potato_ray.trainers.registry import offered_trainer

    if name in LOCAL_ONLY:
        _check_stays_local(document, name)
    trainer = offered_trainer(name)
    _check_params(document, (*_AUTO, "params"), trainer, document.at(*_AUTO, "params"))
    if trainer is not None:
        _check_learnable(document, trainer)
        _check_licence(document, trainer)
    elif name in PLANNED:
        message = f"trainer {name} is not part of this version, so it cannot run by itself"
        document.error((*_AUTO, "trainer"), message, "unknown_trainer")
    else:
        _note_unknown(document, (*_AUTO, "trainer"), name)


def _check_stays_local(document: Document, name: str) -> None:
    own = document.text(*_AUTO, "backend")
    backend = own or document.text(TRAINING, "backend", default=LOCAL)
    if backend != LOCAL:
        path = (*_AUTO, "backend") if own else (*_AUTO, "trainer")
        document.error(
            path, f"{name} runs only on local, not on {backend}", "local_only", LOCAL if own else ""
        )


def _check_learnable(document: Document, trainer: type[Trainer]) -> None:
    """A run trains on the first of its schemes."""
    from potato_ray.project.schemes import schemes_of
    from potato_ray.trainers.registry import learns

    name = document.at(*_AUTO, "schemas", 0)
    if name not in scheme_names(document):
        return
    scheme = schemes_of(s for s in document.list(SCHEMES) if isinstance(s, dict) and s.get("name") == name)[0]
    if not learns(trainer, scheme.kind, scheme.annotation_type):
        why = (
            scheme.why_not or f"it learns {listed(trainer.kinds, 'and')} answers, and these are {scheme.kind}"
        )
        message = f"{trainer.name} cannot learn {name} ({scheme.annotation_type}): {why.rstrip('.')}"
        document.error((*_AUTO, "schemas", 0), message, "untrainable_schema")


def _check_licence(document: Document, trainer: type[Trainer]) -> None:
    if trainer.licence.needs_confirmation and document.at(*_AUTO, "accept_licence") in (None, False):
        message = f"{trainer.name} runs software under {trainer.licence.spdx}; set it to true to accept that"
        document.error((*_AUTO, "accept_licence"), message, "licence_not_confirmed")
