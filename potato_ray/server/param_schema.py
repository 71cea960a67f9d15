"""A trainer's parameters as a JSON Schema, for programs that check or draw a form themselves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from potato_ray.trainers.base import Param, Trainer

_TYPES: Mapping[str, str] = {
    "int": "integer",
    "float": "number",
    "bool": "boolean",
    "str": "string",
    "choice": "string",
    "mapping": "object",
    "dotted_path": "string",
}


def params_schema(trainer: type[Trainer]) -> dict[str, Any]:
    """The schema of the `params` of a start."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {param.name: _property(param) for param in trainer.params},
    }


def _property(param: Param) -> dict[str, Any]:
    kind = _TYPES[param.type]
    schema: dict[str, Any] = {
        "type": [kind, "null"] if param.optional else kind,
        "description": param.help,
        "default": param.default,
    }
    if param.minimum is not None:
        schema["minimum"] = param.minimum
    if param.maximum is not None:
        schema["maximum"] = param.maximum
    if param.type == "choice":
        schema["enum"] = [*param.choices, *([None] if param.optional else [])]
    elif param.choices:
        # Short names; a dotted path may be written in their place.
        schema["examples"] = list(param.choices)
    return schema
