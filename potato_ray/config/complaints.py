"""From what pydantic says to findings: the key as people write it, its line, and what it must be."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from potato_ray.config.document import Document, KeyPath
from potato_ray.config.places import is_backend, keys_at, name_of, our_keys, owners_of
from potato_ray.config.spelling import CUTOFF, closest, listed, shown

if TYPE_CHECKING:
    from pydantic import ValidationError
    from pydantic_core import ErrorDetails

_SURE = 0.9
_SECRETS: tuple[KeyPath, ...] = (
    ("admin_api_key",),
    ("model_training", "notify", "secret_env"),
    # A webhook's address often is the secret.
    ("model_training", "notify", "url"),
)
_ALIASES = {
    "validation": "val",
    "valid": "val",
    "dev": "val",
    "eval": "val",
    "training": "train",
    "holdout": "test",
    "gpu": "cuda",
}
"""What people write for a name that no comparison of letters would find."""

_NOT_OF_SLURM = {
    "packages": "an environment built on the login node may not work on the compute nodes: point job_python "
    "at one that they have",
    "gpus": "under SLURM the GPUs come from gres",
}
_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a whole number of reasonable size",
    "float_type": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "string_type": "text",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping of keys",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
}


def note_complaints(document: Document, invalid: ValidationError) -> None:
    """Add one finding to the document for each of pydantic's errors."""
    for detail in invalid.errors(include_url=False):
        path = _path(detail["loc"])
        say = _SAYINGS.get(detail["type"], _wrong_type if detail["type"] in _TYPES else _other)
        say(document, path, detail)


def _path(loc: tuple[str | int, ...]) -> KeyPath:
    path = tuple(part for part in loc if part != "[key]")
    # pydantic names the chosen type of a backend as if it were a key.
    return path[:3] + path[4:] if len(path) > 3 and is_backend(path[:3]) else path


def _unknown(document: Document, path: KeyPath, detail: ErrorDetails) -> None:
    parent, key = path[:-1], str(path[-1])
    near = _nearest_key(key, keys_at(document, parent))
    reason = "" if near else f"; {_where_it_belongs(document, parent, key)}"
    document.error(path, f"{name_of(document, parent)} has no such key{reason}", "unknown_key", near)


def _nearest_key(key: str, known: list[str]) -> str:
    if _ALIASES.get(key) in known:
        return _ALIASES[key]
    # A key that another block has, nearly or exactly, is rather misplaced than misspelt.
    return closest(key, known, _SURE if _elsewhere(key) else CUTOFF)


def _elsewhere(key: str) -> str:
    """The key of some block of ours that `key` is, or surely should have been; "" when there is none."""
    return closest(key, our_keys(), _SURE)


def _where_it_belongs(document: Document, parent: KeyPath, key: str) -> str:
    if is_backend(parent) and document.text(*parent, "type") == "slurm" and key in _NOT_OF_SLURM:
        return _NOT_OF_SLURM[key]
    meant = _elsewhere(key)
    owners = owners_of(meant)
    if owners:
        return f"{'it is' if meant == key else meant + ' is'} a key of {owners}"
    return f"it has {', '.join(keys_at(document, parent))}"


def _missing(document: Document, path: KeyPath, _: ErrorDetails) -> None:
    parent, key = path[:-1], str(path[-1])
    known = keys_at(document, parent)
    for present in document.mapping(*parent):
        if present not in known and closest(present, known) == key:
            document.error(
                (*parent, present), f"{name_of(document, parent)} has no such key", "unknown_key", key
            )
            return
    document.error(
        path, _MISSING.get(path, f"{name_of(document, parent)} needs it, and it is missing"), "missing_key"
    )


_MISSING: dict[KeyPath, str] = {
    ("model_training", "splits", "train"): "there is no train split, so nothing would be trained on",
    ("data_files",): "it is missing; list the project's data files",
    ("annotation_schemes",): "it is missing; list what annotators are asked",
}


def _wrong_type(document: Document, path: KeyPath, detail: ErrorDetails) -> None:
    wanted, value = _TYPES[detail["type"]], detail["input"]
    if value is None:
        document.error(path, f"has no value; it must be {wanted}, or be left out", "wrong_type")
        return
    if path in _SECRETS:
        document.error(path, f"must be {wanted}; put it in quotes", "wrong_type")
        return
    document.error(
        path, f"must be {wanted}, not {shown(value)}", "wrong_type", _fix(document, path, wanted, value)
    )


def _fix(document: Document, path: KeyPath, wanted: str, value: Any) -> str:
    """What to write instead, where the value says what was meant."""
    if wanted == "a list" and isinstance(value, str):
        return f"[{value}]"
    if wanted == "text" and isinstance(value, bool | int | float):
        return f'"{document.words.get(path, shown(value))}"'
    if isinstance(value, str) and wanted in ("a whole number", "a number", "true or false"):
        return _unquoted(value, wanted)
    return ""


def _unquoted(value: str, wanted: str) -> str:
    if wanted == "true or false":
        return {"true": "true", "false": "false", "yes": "true", "no": "false"}.get(value.lower(), "")
    digits = value.strip().replace(".", "", 1 if wanted == "a number" else 0)
    return value.strip() if digits.isascii() and digits.isdigit() else ""


def _choice(document: Document, path: KeyPath, detail: ErrorDetails) -> None:
    choices = [
        choice.strip("'") for choice in str(detail["ctx"]["expected"]).replace(" or ", ", ").split(", ")
    ]
    value = detail["input"]
    near = closest(value, choices, 0.6) if isinstance(value, str) else ""
    document.error(path, f"must be {listed(choices)}, not {shown(value)}", "wrong_value", near)


def _no_type(document: Document, path: KeyPath, _: ErrorDetails) -> None:
    for key in document.mapping(*path):
        if key != "type" and closest(key, ["type"]):
            document.error((*path, key), "a backend has no such key", "unknown_key", "type")
            return
    document.error((*path, "type"), "it is missing; it must be ssh, slurm, agent or ray", "missing_key")


def _unknown_type(document: Document, path: KeyPath, _: ErrorDetails) -> None:
    value = document.at(*path, "type")
    near = closest(value, ["ssh", "slurm", "agent", "ray"], 0.5) if isinstance(value, str) else ""
    message = f"must be ssh, slurm, agent or ray, not {shown(value)}"
    if value == "local":
        message = "local is always there and is not configured; its keys stand in model_training itself"
    document.error((*path, "type"), message, "wrong_value", near)


def _refused(document: Document, path: KeyPath, detail: ErrorDetails) -> None:
    """One of the validators in values.py refused the value."""
    value = detail["input"]
    said = str(detail["ctx"]["error"])
    hidden = path in _SECRETS or "env" in path or value == ""
    near = _ALIASES.get(value, "") if path[-1] == "device" and isinstance(value, str) else ""
    but = "; it is" if said.startswith("must not") else ", not"
    document.error(path, said if hidden else f"{said}{but} {shown(value)}", "wrong_value", near)


def _bound(words: str, name: str) -> Callable[[Document, KeyPath, ErrorDetails], None]:
    def say(document: Document, path: KeyPath, detail: ErrorDetails) -> None:
        bound = f"{detail['ctx'][name]:g}"
        document.error(path, f"must be {words.format(bound)}, not {shown(detail['input'])}", "out_of_range")

    return say


def _empty(document: Document, path: KeyPath, _: ErrorDetails) -> None:
    document.error(path, "must not be empty", "wrong_value")


def _other(document: Document, path: KeyPath, detail: ErrorDetails) -> None:
    document.error(path, detail["msg"], "wrong_value")


_SAYINGS: Mapping[str, Callable[[Document, KeyPath, ErrorDetails], None]] = {
    "extra_forbidden": _unknown,
    "missing": _missing,
    "literal_error": _choice,
    "union_tag_not_found": _no_type,
    "union_tag_invalid": _unknown_type,
    "value_error": _refused,
    "greater_than": _bound("above {}", "gt"),
    "greater_than_equal": _bound("{} or more", "ge"),
    "less_than": _bound("below {}", "lt"),
    "less_than_equal": _bound("{} or less", "le"),
    "string_too_short": _empty,
    "too_short": _empty,
}
