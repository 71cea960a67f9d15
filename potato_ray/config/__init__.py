"""The configuration: models, loading with line numbers, checks.

    from potato_ray.config import load, validate

What needs pydantic is imported at its first use, so that `--help` does not wait for it.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from potato_ray.config.findings import Finding, Validation

if TYPE_CHECKING:
    from potato_ray.config.models import ModelTraining, ProjectConfig
    from potato_ray.config.validating import load, validate

__all__ = ["Finding", "ModelTraining", "ProjectConfig", "Validation", "load", "validate"]

_HOMES = {
    "load": "validating",
    "validate": "validating",
    "ModelTraining": "models",
    "ProjectConfig": "models",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
