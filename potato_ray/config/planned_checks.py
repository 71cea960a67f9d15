"""Keys that are validated, so that a project can be ready for them, and that this version makes no use of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from potato_ray.config.document import Document, KeyPath, dotted
from potato_ray.config.training_checks import TRAINING

PLANNED_KEYS: Mapping[KeyPath, Callable[[Any], bool]] = {
    (TRAINING, "auto_retrain", "enabled"): lambda value: value is True,
    (TRAINING, "retry_lost"): bool,
    (TRAINING, "tiling"): lambda value: isinstance(value, dict) and value.get("enabled") is not False,
    (TRAINING, "max_predictions_mb"): lambda value: value is not None,
}
"""Path → whether this value there asks for something."""


def check_planned(document: Document) -> None:
    """Warn of what is asked for and will not happen; what is wrong in itself is reported already."""
    reported = [finding.key for finding in document.findings]
    for path, asks in PLANNED_KEYS.items():
        block = dotted(path[:2])
        if asks(document.at(*path)) and not any(key.startswith(block) for key in reported):
            document.warn(path, "it is validated, and has no effect in this version", "planned_key")
