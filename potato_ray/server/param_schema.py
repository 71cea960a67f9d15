"""A trainer's parameters as a JSON Schema, for programs that check or draw a form themselves."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from potato_ray.trainers.base import Param, Trainer

_TYPES: Mapping[str, tuple[str, ...]] = {
    "int": ("integer",),
    "float": ("number",),
    "bool": ("boolean",),
    "str": ("string",),
    "choice": ("string",),
    "names": ("string", "array"),
    "mapping": ("object",),
    "bool_or_mapping": ("boolean", "object"),
    "dotted_path": ("string",),
}


def params_schema(trainer: type[Trainer]) -> dict[str, Any]:
    """The schema of the `params` of a start."""
    return {"type": "object", **_members(trainer.params)}


def _members(params: Iterable[Param]) -> dict[str, Any]:
    return {
        "additionalProperties": False,
        "properties": {param.name: _property(param) for param in params},
    }


def _property(param: Param) -> dict[str, Any]:
    types = [*_TYPES[param.type], *(["null"] if param.optional else [])]
    schema: dict[str, Any] = {
        "type": types if len(types) > 1 else types[0],
        "description": param.help,
        "default": param.default,
    }
    if param.minimum is not None:
        schema["minimum"] = param.minimum
    if param.maximum is not None:
        schema["maximum"] = param.maximum
    return {**schema, **_inside(param)}


def _inside(param: Param) -> dict[str, Any]:
    """What a schema says besides of texts, lists and mappings; it holds for values of that type alone."""
    if param.members:
        return _members(param.members)
    if param.type == "names":
        item = {"type": "string", "minLength": 1}
        return {
            "items": {**item, "enum": list(param.choices)} if param.choices else item,
            "minLength": 1,
            "minItems": 1,
        }
    if param.type == "choice":
        return {"enum": [*param.choices, *([None] if param.optional else [])]}
    # Short names; a dotted path may be written in their place.
    return {"examples": list(param.choices)} if param.choices else {}
