"""What the shell offers when it completes a word. Never fails: an unreadable project offers nothing."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

DEFAULT_CONFIG = Path("config.yaml")


def trainers(incomplete: str) -> list[str]:
    from potato_ray.trainers.registry import trainer_names

    return _starting(incomplete, trainer_names())


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
