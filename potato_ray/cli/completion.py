"""What the shell offers when it completes a word. Never fails: an unreadable project offers nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from potato_ray.trainers.base import Param

DEFAULT_CONFIG = Path("config.yaml")
_ONE_WORD = re.compile(r"[\w./+-]+")


def trainers(incomplete: str) -> list[str]:
    from potato_ray.trainers.registry import trainer_names

    return _starting(incomplete, trainer_names())


def params(trainer: Any, incomplete: str) -> list[str]:
    """`name=` of the parameters of a trainer, and after the = its values where they can be listed."""
    from potato_ray.trainers.params import with_members
    from potato_ray.trainers.registry import offered_trainer

    found = offered_trainer(trainer) if isinstance(trainer, str) else None
    if found is None:
        return []
    known = dict(with_members(found.params))
    name, equals, _ = incomplete.partition("=")
    if equals:
        param = known.get(name)
        return _starting(incomplete, [f"{name}={value}" for value in _values(param)] if param else [])
    # Members once their mapping is named: else they would bury the others.
    shown = [each for each in known if each.count(".") <= incomplete.count(".")]
    opened = [f"{each}." for each in shown if known[each].members and f"{each}." != incomplete]
    offered = _starting(incomplete, [*(f"{each}=" for each in shown), *opened])
    if len(offered) != 1 or not offered[0].endswith("="):
        return offered
    # With a value beside it a shell takes no single one for the whole word and puts no blank behind the =.
    return [*offered, *(f"{offered[0]}{value}" for value in _values(known[offered[0][:-1]]) or ["…"])]


def _values(param: Param) -> list[str]:
    """Those that can be listed, else the default where it is one word."""
    switch = ["true", "false"] if param.type in ("bool", "bool_or_mapping") else []
    listed = [*switch, *param.choices, *(["null"] if param.optional else [])]
    default = "" if param.default is None else str(param.default)
    return listed or ([default] if _ONE_WORD.fullmatch(default) else [])


def schemas(config: Any, incomplete: str) -> list[str]:
    loaded = _loaded(config)
    return _starting(incomplete, [str(s.get("name")) for s in loaded.annotation_schemes]) if loaded else []


def backends(config: Any, incomplete: str) -> list[str]:
    loaded = _loaded(config)
    return _starting(incomplete, ["local", *(loaded.model_training.backends if loaded else ())])


def runs(config: Any, incomplete: str) -> list[str]:
    loaded = _loaded(config)
    if loaded is None:
        return []
    from potato_ray.registry.reading import RegistryReader

    try:
        reader = RegistryReader(loaded.registry_path, project=loaded.annotation_task_name)
        found = [run.run_id for run in reader.runs(limit=50)]
    except Exception:  # noqa: BLE001 - a damaged or locked registry must not print into the shell's line
        return []
    return _starting(incomplete, ["latest", *found])


def _loaded(config: Any) -> Any:
    from potato_ray.config import load
    from potato_ray.errors import PotatoRayError

    try:
        return load(Path(config) if config else DEFAULT_CONFIG)
    except (PotatoRayError, OSError):
        return None


def _starting(incomplete: str, words: Iterable[str]) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]
